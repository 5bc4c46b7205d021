# The daemon with Debian's Python 3.13 and Java 21, and Spark. Build it with scripts/image, or with
#   docker build -t retentiond .
# Where pip needs a company's certificates: --secret id=ca_bundle,src=/path/to/bundle.crt
# To build from one base for good, name its digest: --build-arg BASE=debian:trixie-slim@sha256:…
ARG BASE=debian:trixie-slim

FROM ${BASE} AS builder
# setuptools and wheel come from Debian: PySpark is published as source only, and pip would fetch
# its build tools without any hash if it were left to isolate the build. Debian's own copies of the
# other tools' dependencies can't be replaced by pip, only preceded: --ignore-installed.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        ca-certificates python3 python3-pip python3-setuptools python3-wheel
WORKDIR /build
COPY requirements.txt requirements-build.txt ./
RUN --mount=type=secret,id=ca_bundle \
    if [ -s /run/secrets/ca_bundle ]; then export PIP_CERT=/run/secrets/ca_bundle; fi \
    && python3 -m pip install --no-cache-dir --break-system-packages --ignore-installed \
        --require-hashes --only-binary :all: --requirement requirements-build.txt \
    && python3 -m pip wheel --no-cache-dir --no-build-isolation --require-hashes \
        --wheel-dir wheels --requirement requirements.txt
# Without pip: what runs can't install anything. Compiled here: the file system is read-only later.
RUN python3 -m venv --without-pip /opt/retentiond \
    && python3 -m pip --python /opt/retentiond/bin/python install --no-cache-dir --no-index \
        --no-deps --compile wheels/*.whl
# Left out, 105 MB that nothing in the daemon can reach: the jars of the Scala shell for Spark
# Connect (Spark's launcher adds them for `--remote` JVM clients only; ours is Python), Spark's
# examples, and the test suites of pandas and pyarrow. All other jars stay: spark://, sc:// and
# k8s:// masters need more of them than local[*] shows.
RUN cd /opt/retentiond/lib/python3.*/site-packages \
    && rm -r pyspark/jars/connect-repl pyspark/examples pandas/tests pyarrow/tests
COPY pyproject.toml README.md LICENSE ./
COPY config config
COPY retentiond retentiond
RUN python3 -m pip wheel --no-cache-dir --no-index --no-deps --no-build-isolation \
        --wheel-dir project . \
    && python3 -m pip --python /opt/retentiond/bin/python install --no-cache-dir --no-index \
        --no-deps --compile project/*.whl

FROM ${BASE}
# procps: Spark's launch script calls ps, and says so on stderr where it is missing.
# Group 0 may write the state: a user that the image doesn't know (`docker run --user 12345`,
# OpenShift) is in it.
# man1: the slim image leaves it out, and the Java package fails to link into it.
RUN mkdir -p /usr/share/man/man1 \
    && apt-get update \
    && apt-get install --yes --no-install-recommends \
        ca-certificates openjdk-21-jre-headless procps python3 tini \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log \
        /var/log/alternatives.log /tmp/* \
    && groupadd --gid 10001 retentiond \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/retentiond \
        --shell /usr/sbin/nologin retentiond \
    && install --directory --owner=10001 --group=0 --mode=0770 /var/lib/retentiond
COPY --from=builder /opt/retentiond /opt/retentiond
# The root file system may be read-only: only /tmp (Spark's scratch files, the folders that it makes
# where it is started, native libraries that the JVM unpacks) and the state are written to. Mount
# /tmp with exec: lz4 has a fallback in Java when its library can't be loaded, zstd has none.
ENV PATH=/opt/retentiond/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    RETENTIOND_CONFIG=/etc/retentiond/retentiond.yaml \
    RETENTIOND_REQUIRE_YES=1 \
    SPARK_LOCAL_DIRS=/tmp
WORKDIR /tmp
# 145 MB for a first plan in two thirds of the time, and less memory. Here, because it holds for one
# Java and its jars only.
RUN --mount=type=bind,source=scripts/devkit/class_archive.py,target=/mnt/class_archive.py \
    python /mnt/class_archive.py && rm -rf /tmp/*
VOLUME /var/lib/retentiond
EXPOSE 9477
# By number, so that Kubernetes can see that it is not root.
USER 10001:10001
# For the default http.port, with http.tls and http.basic_auth too.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-m", "retentiond.healthcheck", "9477"]
# tini reaps what a killed JVM leaves behind, and passes signals on; -s: also where it is not process 1.
ENTRYPOINT ["tini", "-s", "--", "retentiond"]
CMD ["run"]
ARG BASE
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="retentiond" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.description="Consumed retention for Apache Kafka" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.base.name="docker.io/library/${BASE}"
