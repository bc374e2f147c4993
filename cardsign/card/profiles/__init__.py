"""The profiles: rules that make a payload from a card, each frozen as its SDK applies it."""
