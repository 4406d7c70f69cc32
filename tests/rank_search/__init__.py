"""What can a coordinator and c corrupt sites determine about the inputs of honest sites?

Cryptography is perfect here: whatever is not known is an unknown of its own over a prime field. An honest
site's inputs (its gate count and its data), its two self masks and its masks with other honest sites are such
unknowns; what corrupt sites put in, the adversary knows and subtracts. Every masked vector is then a linear
equation, and the adversary determines exactly those combinations of inputs that it can build without a mask
left in them: a question of rank.

The model needs only the number of honest sites k = n - c and the quorum q = t - c. Corrupt sites hold, and
give, a share of both kinds of every seed and sign anything, so t shares or signatures are q of honest sites.
B1 reads 2q > k, B2 reads q >= h_min. A corrupt site that stays away only makes the case one with a smaller n.

* ``algebra``  rank over the field
* ``model``    the rules of the round, what honest sites do when asked anything, what is determined from it
* ``spaces``   the cases, up to renaming of sites
* ``iterations``, ``iterated_spaces``  the same for secrets dealt ahead, which several iterations share

Not modelled: R3.7 (all digests of a survivor set carry the same h2). The search finds no leak without it,
which is more.
"""
