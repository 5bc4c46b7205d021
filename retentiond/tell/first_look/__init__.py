"""A first look at a cluster or at unmanaged topics, and the files that it writes.

In comes a plan of these topics; out go causes, signs of readers that can't be seen, and YAML.
"""
