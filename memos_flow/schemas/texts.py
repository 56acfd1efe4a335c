"""Texts and their vectors, stored once."""

import dataframely as dy


class Texts(dy.Schema):
    """Content table: `text_id` is a hash of the text."""

    text_id = dy.Int64(primary_key=True)
    text = dy.String()


class Embeddings(dy.Schema):
    """Content table: unit vectors of the texts that are compared."""

    text_id = dy.Int64(primary_key=True)
    vector = dy.List(dy.Float32(), nullable=False)
