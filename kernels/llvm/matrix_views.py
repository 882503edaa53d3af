"""MatrixViews: the steps through memory of A and C where one launch multiplies several matrices."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MatrixViews:
    """Steps in elements of A and C, whose columns are neighbours in C.

    There are `matrices` packed Bs, one after the other, and for each B `times` pairs of A and C. Pairs of different B
    are `a_matrix` and `c_matrix` apart, pairs of one B `a_again` and `c_again`.
    """

    a_row: int
    a_column: int
    c_row: int
    matrices: int = 1
    a_matrix: int = 0
    c_matrix: int = 0
    times: int = 1
    a_again: int = 0
    c_again: int = 0

    def arguments(self) -> dict[str, int]:
        """The launch arguments of a tile, by name."""
        return {"groups": self.matrices, "x_column": self.a_row, "x_channel": self.a_column, "x_group": self.a_matrix,
                "x_image": self.a_again, "y_pixel": self.c_row, "y_channel": 1, "y_group": self.c_matrix,
                "y_image": self.c_again, "filter_rows": 1, "inside_rows": 1, "tap_row_step": 1}
