"""How much the operator can look after, and what it costs."""
