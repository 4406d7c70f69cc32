"""How a site reads its tables: bytes to text to values, joined by person id. Nothing here leaves the site.

``source`` gives every format one face. Text comes through ``files``: ``filter`` makes lines of any bytes, ``sniff`` finds
delimiter and names; ``brc``, ``freesurfer``, ``enigma`` and ``bids`` know what their programs write. ``parquet``,
``duck_table`` (some columns at a time, ``parts``) and ``database`` make text of typed cells. From there on all are alike:
``rows`` checks every row, ``store`` lets DuckDB join ids, ``locate`` and ``mapping`` say which column is which variable,
``numbers``, ``levels`` and ``units`` give values, ``copies`` compares what stands twice, ``ids`` watches over person ids,
and ``reader`` puts the steps in order.
"""
