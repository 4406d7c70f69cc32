"""The ledger's rules: examples, exact differencing over random histories, and programmes of studies over 34 sites.

* ``oracle``  what can be computed from all opened totals: exact ranks, nothing shared with the product
* ``world``   sites with ledgers, honest or lying, and a coordinator that makes every choice
* ``attacks`` one history per rule that leaks where the rule is taken away
"""
