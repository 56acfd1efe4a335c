"""The tasks of the families."""

import dataframely as dy
import polars as pl


class Tasks(dy.Schema):
    """Ordered tasks of a family; a name may recur in another family."""

    family = dy.String(primary_key=True, min_length=1)
    task = dy.String(primary_key=True, min_length=1)
    task_index = dy.Int32(min=0)
    #: The instruction as written; null where a recorded trial came without its task folder.
    instruction_text_id = dy.Int64(nullable=True)
    #: The instruction and its file names with the family's and task's own ids masked (section 4.8).
    query_text_id = dy.Int64(nullable=True)
    #: Detectable features of the task's own text, from which triggers are written.
    file_names = dy.List(dy.String(), nullable=False)
    domain = dy.String(nullable=True)
    tool = dy.String(nullable=True)

    @dy.rule()
    def task_index_is_a_position(cls) -> pl.Expr:
        return pl.len().over("family", "task_index") == 1
