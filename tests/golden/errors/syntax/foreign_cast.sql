SELECT
  x::int
FROM t
