"""The catalogue of variable families: units, public clamps and the names they cover."""
