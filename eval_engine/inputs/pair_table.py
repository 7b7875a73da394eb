"""The columns that every table of pairs has, and what they mean."""

PAIR = {"user_id": "id", "item_id": "id", "value": "value"}
