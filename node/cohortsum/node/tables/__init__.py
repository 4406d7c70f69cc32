"""How a site reads its tables: bytes to text to values, joined by person id. Nothing here leaves the site.

``filter`` makes lines of any bytes, ``sniff`` finds delimiter and names, ``rows`` checks every row, ``store``
lets DuckDB read and join text, ``mapping`` says which column is which variable, ``numbers``, ``levels`` and
``units`` give values, ``ids`` watches over person ids, and ``reader`` puts the steps in order.
"""
