CREATE TABLE t (
  order INT
)
