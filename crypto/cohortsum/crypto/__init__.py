"""Numbers and bytes: field, shares, masks, keys, seals and signatures. Knows no study and no socket."""
