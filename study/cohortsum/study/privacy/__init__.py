"""What releases cost: events of noise, what they compose to, and the claim that may be made of them."""
