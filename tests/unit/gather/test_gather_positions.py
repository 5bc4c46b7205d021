"""Where numbered partitions stand among those of a reading."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentiond.gather import assemble
from retentiond.snapshot import NOWHERE, PartitionReading

places = st.tuples(st.integers(0, 3), st.integers(0, 4))
asked = st.lists(st.tuples(st.integers(NOWHERE, 4), st.integers(-30, 9)), max_size=20)


@pytest.mark.parametrize("dense", [0, 1000], ids=["searched for", "in a table"])
@given(st.sets(places), asked)
def test_each_is_found_where_it_stands(
    dense: int, there: set[tuple[int, int]], wanted: list[tuple[int, int]]
) -> None:
    partitions = [PartitionReading(*each, 0, 9, 9, 9) for each in sorted(there)]
    expected = [sorted(there).index(each) if each in there else NOWHERE for each in wanted]
    topics, numbers = np.array(wanted, np.int64).reshape(-1, 2).T
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(assemble, "DENSE", dense)
        assert assemble.positions_of(topics, numbers, partitions).tolist() == expected
