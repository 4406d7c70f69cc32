"""Which counts a release may print: small ones hidden, others hidden to protect them, the rest rounded."""
