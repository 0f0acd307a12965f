"""How things look to people: escaped HTML, cards in notebooks, progress bars. It knows only what it is given."""
