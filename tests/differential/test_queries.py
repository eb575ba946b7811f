"""Every kind of query that a stream runs, over finished input, has DuckDB's answer."""

from __future__ import annotations

import itertools

import pytest
from oracle import Differential, Row, Tables

ORDERS: list[Row] = [
    # id, customer, amount, price, at
    (1, "ann", 10, "1.25", "2024-01-01 00:00:01"),
    (2, "bob", 20, "99.99", "2024-01-01 00:00:02.500"),
    (3, "ann", None, "0.01", "2024-01-01 00:00:04"),
    (4, None, 5, None, "2024-01-01 00:00:04.001"),
    (5, "cat", -7, "-3.50", "2024-01-01 00:00:09.999"),
    (6, "bob", 20, "99.99", "2024-01-01 00:00:10"),
    (7, "ann", 10, "12345678.90", "2024-01-01 00:00:10.001"),
    (8, "dan", 0, "0.00", "2024-01-01 00:00:17"),
    (9, "bob", -20, "5.55", "2024-01-01 00:00:20"),
    (10, "Eve", 7, "5.55", "2024-01-01 00:00:29.999"),
    (11, "", 1000000, "7.77", "2024-01-01 00:00:31"),
    (12, "ann", 3, "-0.05", "2024-01-01 00:01:05"),
    (13, "zoë", None, "2.50", "2024-01-01 00:01:06"),
    (14, None, 8, "2.50", "2024-01-01 00:02:00"),
]
CUSTOMERS: list[Row] = [
    ("ann", "Oslo", 1), ("ann", "Bergen", 2), ("bob", "Rome", 3), ("fay", "Bonn", 4), (None, "Nowhere", 5),
    ("dan", None, 6),
]  # fmt: skip
SHIPMENTS: list[Row] = [
    # id, customer, at
    (1, "ann", "2024-01-01 00:00:03"),
    (2, "bob", "2024-01-01 00:00:04"),
    (2, "bob", "2024-01-01 00:00:12"),
    (7, "ann", "2024-01-01 00:00:10.001"),
    (9, None, "2024-01-01 00:00:21"),
    (12, "ann", "2024-01-01 00:01:30"),
    (14, "gus", "2024-01-01 00:01:31"),
]
TABLES: Tables = {
    "orders": (
        "id INT, customer STRING, amount INT, price DECIMAL(10, 2), `at` TIMESTAMP(3),"
        " WATERMARK FOR `at` AS `at` - INTERVAL '0.001' SECOND",
        ORDERS,
    ),
    "customers": ("name STRING, city STRING, rank_ INT", CUSTOMERS),
    "shipments": (
        "id BIGINT, customer STRING, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at` - INTERVAL '0.001' SECOND",
        SHIPMENTS,
    ),
}
TUMBLE = "TABLE(TUMBLE(TABLE orders, DESCRIPTOR(`at`), INTERVAL '10' SECOND))"

QUERIES: dict[str, str] = {
    # -- rows alone ------------------------------------------------------------------------------
    "filter": "SELECT id, amount FROM orders WHERE amount > 5 AND customer <> 'bob'",
    "null_logic": "SELECT id FROM orders WHERE NOT (amount > 5) OR customer IS NULL",
    "three_valued_projection":
        "SELECT id, amount > 5, amount > 5 AND customer = 'ann', amount > 5 OR customer = 'ann', NOT (amount > 5),"
        " (amount > 5) IS TRUE, (amount > 5) IS NOT FALSE, (amount > 5) IS UNKNOWN FROM orders",
    "distinct_from": "SELECT id FROM orders WHERE amount IS DISTINCT FROM 10 AND customer IS NOT DISTINCT FROM NULL",
    "in_and_between": "SELECT id, customer IN ('ann', 'bob'), amount NOT IN (10, 20), id BETWEEN 3 AND 6 FROM orders",
    "rollup":
        "SELECT customer, amount > 5, GROUPING(customer), COUNT(*), SUM(id) FROM orders GROUP BY ROLLUP (customer, amount > 5)",
    "unnest":
        "SELECT id, x, i FROM orders CROSS JOIN UNNEST(ARRAY[id, amount, NULL]) WITH ORDINALITY AS u (x, i) WHERE amount > 5",
    "unnest_rows":
        "SELECT id, f, g FROM orders LEFT JOIN UNNEST(CASE WHEN id < 4 THEN ARRAY[ROW(amount, customer)] END) AS u (f, g)"
        " ON TRUE",
    "case":
        "SELECT id, CASE WHEN amount > 9 THEN 'many' WHEN amount > 0 THEN 'some' END,"
        " CASE customer WHEN 'ann' THEN 1 ELSE 2.5 END FROM orders",
    "conditionals":
        "SELECT COALESCE(amount, id, 0), IFNULL(customer, '?'), NULLIF(amount, 10), IF(amount > 5, id, -id),"
        " GREATEST(id, amount), LEAST(id, amount) FROM orders",
    "integers":
        "SELECT amount + id, amount - id, amount * id, amount / 3, amount % 3, -amount, ABS(amount), MOD(amount, id)"
        " FROM orders",
    "decimals":
        "SELECT price + 1, price - amount, price * price, price * 0.908, price / 3, price / 7.5, price % 3, -price,"
        " ABS(price), ROUND(price, 1), ROUND(price), FLOOR(price), CEIL(price) FROM orders",
    "decimal_quotients":
        "SELECT customer, SUM(price) / 3, SUM(price) / -7.77, SUM(price) / COUNT(*), SUM(price) / SUM(price + 100)"
        " FROM orders GROUP BY customer",
    "doubles":
        "SELECT CAST(price AS DOUBLE) / 3, SQRT(ABS(CAST(amount AS DOUBLE))), POWER(amount, 2), EXP(id), LN(id),"
        " ROUND(CAST(price AS DOUBLE) / 3, 2), FLOOR(CAST(price AS DOUBLE)), CEIL(CAST(price AS DOUBLE)) FROM orders",
    "casts":
        "SELECT CAST(amount AS STRING), CAST(price AS STRING), CAST(price AS INT), CAST(amount AS DECIMAL(12, 3)),"
        " CAST(price AS DECIMAL(4, 1)), CAST(amount AS BOOLEAN), CAST(amount > 5 AS STRING), CAST(amount > 5 AS INT),"
        " CAST(`at` AS STRING), CAST(`at` AS DATE), CAST(CAST(`at` AS DATE) AS TIMESTAMP(3)), CAST(amount AS DOUBLE),"
        " CAST(`at` AS TIMESTAMP(0)), CAST(customer AS CHAR(4)), CAST(customer AS VARCHAR(2)) FROM orders",
    "casts_from_text":
        "SELECT CAST(CAST(amount AS STRING) AS INT), CAST('12.7' AS INT), CAST(' -3 ' AS BIGINT), CAST('1.005' AS DECIMAL(5, 2)),"
        " TRY_CAST(customer AS INT), TRY_CAST('x' AS DOUBLE), CAST('yes' AS BOOLEAN), CAST('2024-02-29' AS DATE),"
        " CAST('2024-02-29 01:02:03.4567' AS TIMESTAMP(3)) FROM orders",
    "strings":
        "SELECT customer || '!', UPPER(customer), LOWER(customer), CHAR_LENGTH(customer), SUBSTRING(customer, 2),"
        " SUBSTRING(customer, -2, 1), SUBSTRING(customer FROM 0 FOR 2), REPLACE(customer, 'n', 'mm'), TRIM('a' FROM customer),"
        " LPAD(customer, 5, '*'), RPAD(customer, 2, '*'), LEFT(customer, 2), RIGHT(customer, 2), REVERSE(customer),"
        " POSITION('n' IN customer), REPEAT(customer, 2), CONCAT_WS('-', customer, CAST(id AS STRING)) FROM orders",
    "patterns":
        "SELECT customer LIKE '%n%', customer LIKE '_o_', customer LIKE 'a!%%' ESCAPE '!', REGEXP(customer, '^[a-c]'),"
        " REGEXP_EXTRACT(customer, '(.)n(.*)', 1), SPLIT_INDEX(customer, 'n', 1), SPLIT_INDEX('a,b,,c', ',', amount)"
        " FROM orders WHERE amount >= 0 OR amount IS NULL",
    "timestamps":
        "SELECT EXTRACT(YEAR FROM `at`), EXTRACT(SECOND FROM `at`), EXTRACT(MINUTE FROM `at`), EXTRACT(DOW FROM `at`),"
        " DAYOFYEAR(`at`), HOUR(`at`), DATE_FORMAT(`at`, 'yyyy/MM/dd HH:mm:ss.SSS'), FLOOR(`at` TO MINUTE),"
        " TIMESTAMPADD(MINUTE, id, `at`), TIMESTAMPADD(MONTH, id, `at`), `at` + INTERVAL '1' DAY, `at` - INTERVAL '2' MONTH,"
        " TIMESTAMPDIFF(SECOND, TIMESTAMP '2024-01-01 00:00:10', `at`), `at` > TIMESTAMP '2024-01-01 00:00:10',"
        " TO_TIMESTAMP('2024-03-01 10:20', 'yyyy-MM-dd HH:mm'), TO_DATE('2024-03-01'), DATE '2024-01-31' + INTERVAL '1' DAY"
        " FROM orders",
    "instants": "SELECT TO_TIMESTAMP_LTZ(id, 0), CAST(TO_TIMESTAMP_LTZ(id * 1000, 3) AS STRING) FROM orders",
    "values": "SELECT a + 1, b FROM (VALUES (1, 'x'), (2, 'y'), (CAST(NULL AS INT), 'z')) AS v(a, b) WHERE b <> 'y'",
    "no_from": "SELECT 1 + 1, 'a' || 'b', CAST(NULL AS INT)",
    "empty": "SELECT id, customer FROM orders WHERE id > 1000",
    # -- whole tables ------------------------------------------------------------------------------
    "union_all": "SELECT id, customer FROM orders UNION ALL SELECT rank_, name FROM customers UNION ALL SELECT 0, 'x'",
    "union": "SELECT customer FROM orders UNION SELECT name FROM customers",
    "distinct": "SELECT DISTINCT customer, amount > 5 FROM orders",
    "group":
        "SELECT customer, COUNT(*), COUNT(amount), SUM(amount), AVG(amount), MIN(amount), MAX(amount), SUM(price), AVG(price)"
        " FROM orders GROUP BY customer",
    "group_by_expression": "SELECT id % 3, SUM(amount) + COUNT(*) FROM orders GROUP BY id % 3",
    "having": "SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer HAVING COUNT(*) > 1 AND MAX(amount) > 5",
    "no_keys": "SELECT COUNT(*), SUM(amount), AVG(price), MIN(customer), MAX(`at`) FROM orders",
    "no_keys_no_rows": "SELECT COUNT(*), SUM(amount), MIN(customer) FROM orders WHERE id > 1000",
    "keys_no_rows": "SELECT customer, COUNT(*) FROM orders WHERE id > 1000 GROUP BY customer",
    "count_distinct":
        "SELECT COUNT(DISTINCT customer), COUNT(DISTINCT amount), SUM(DISTINCT amount), AVG(DISTINCT amount),"
        " COUNT(DISTINCT price) FROM orders",
    "count_distinct_pairs":
        "SELECT customer, COUNT(DISTINCT amount, price), COUNT(DISTINCT id, customer) FROM orders GROUP BY (customer)",
    "count_distinct_by_key": "SELECT customer, COUNT(DISTINCT amount), COUNT(*), MAX(price) FROM orders GROUP BY customer",
    "filtered_aggregates":
        "SELECT customer, COUNT(*) FILTER (WHERE amount > 5), SUM(price) FILTER (WHERE amount IS NULL),"
        " COUNT(DISTINCT id) FILTER (WHERE amount > 0) FROM orders GROUP BY customer",
    "variances":
        "SELECT VAR_POP(amount), VAR_SAMP(amount), STDDEV_POP(price), STDDEV_SAMP(CAST(id AS DOUBLE)) FROM orders",
    "aggregate_of_aggregates":
        "SELECT n, COUNT(*), SUM(s), MIN(m), MAX(m) FROM"
        " (SELECT customer, COUNT(*) AS n, SUM(amount) AS s, MAX(amount) AS m FROM orders GROUP BY customer) GROUP BY n",
    "cte_and_view":
        "CREATE VIEW big AS SELECT * FROM orders WHERE amount >= 8;"
        "WITH sums AS (SELECT customer, SUM(amount) AS s FROM big GROUP BY customer) SELECT s, COUNT(*) FROM sums GROUP BY s",
    "order": "SELECT id, amount FROM orders ORDER BY amount DESC, id",
    "order_nulls": "SELECT id, amount, customer FROM orders ORDER BY customer NULLS LAST, amount NULLS FIRST, id DESC",
    "order_limit_offset": "SELECT id, price FROM orders ORDER BY price, id LIMIT 5 OFFSET 3",
    "order_of_groups": "SELECT customer, SUM(amount) AS s FROM orders GROUP BY customer ORDER BY s, customer LIMIT 4",
    "limit_all": "SELECT id FROM orders LIMIT 100",
    # -- joins -------------------------------------------------------------------------------------
    "inner_join": "SELECT o.id, c.city FROM orders AS o JOIN customers AS c ON o.customer = c.name",
    "left_join": "SELECT o.id, c.city FROM orders AS o LEFT JOIN customers AS c ON o.customer = c.name",
    "left_join_with_condition":
        "SELECT o.id, c.city, c.rank_ FROM orders AS o LEFT JOIN customers AS c ON o.customer = c.name AND c.rank_ > o.amount",
    "right_join": "SELECT o.id, c.city FROM orders AS o RIGHT JOIN customers AS c ON o.customer = c.name AND o.amount > 5",
    "anti_by_left_join": "SELECT o.id FROM orders AS o LEFT JOIN customers AS c ON o.customer = c.name WHERE c.name IS NULL",
    "full_join": "SELECT o.id, c.city FROM orders AS o FULL JOIN customers AS c ON o.customer = c.name AND o.amount > 5",
    # Functions of both sides in a condition: Spark joins by what matches (see sqlstream.planner.lower.joins_by_matches).
    "left_join_by_a_function":
        "SELECT o.id, c.city FROM orders AS o LEFT JOIN customers AS c ON POSITION(c.name IN o.customer || c.city) > 0",
    "full_join_by_a_function":
        "SELECT o.id, c.city FROM orders AS o"
        " FULL JOIN customers AS c ON POSITION(c.name IN o.customer) > 0 AND o.amount > c.rank_",
    "right_join_by_a_function": (
        "SELECT o.amount, c.city FROM orders AS o"
        " RIGHT JOIN customers AS c ON o.customer = c.name AND LPAD(c.city, o.amount, '*') LIKE '**%'"
    ),
    "exists_by_a_function":
        "SELECT o.id FROM orders AS o WHERE EXISTS (SELECT 1 FROM customers AS c WHERE POSITION(c.name IN o.customer) > 0)",
    "not_exists_by_a_function": (
        "SELECT o.id FROM orders AS o"
        " WHERE NOT EXISTS (SELECT 1 FROM customers AS c WHERE POSITION(c.name IN o.customer) > 0 AND c.rank_ < o.amount)"
    ),
    "full_join_of_a_range": "SELECT o.id, c.city FROM orders AS o FULL JOIN customers AS c ON o.amount < c.rank_ AND c.rank_ > 2",
    "full_join_of_counts": (
        "SELECT a.customer, n, b.customer AS other, m FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) AS a"
        " FULL JOIN (SELECT customer, COUNT(*) AS m FROM shipments GROUP BY customer) AS b ON a.customer = b.customer"
    ),
    "full_join_using": "SELECT customer, o.id, s.id AS sid FROM orders AS o FULL JOIN shipments AS s USING (customer)",
    "semi_join": "SELECT id FROM orders LEFT SEMI JOIN customers ON customer = name AND rank_ > amount",
    "anti_join": "SELECT id FROM orders LEFT ANTI JOIN customers ON customer = name AND rank_ > amount",
    "anti_join_of_counts": (
        "SELECT name, rank_ FROM customers LEFT ANTI JOIN (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) AS t"
        " ON name = customer AND n > 2"
    ),
    "natural_join": (
        "SELECT * FROM (SELECT id, customer FROM orders) NATURAL LEFT JOIN"
        " (SELECT CAST(id AS INT) AS id, `at` FROM shipments)"
    ),
    "joins_in_parentheses": (
        "SELECT o.id, c.city, s.id AS sid FROM orders AS o LEFT JOIN"
        " (customers AS c JOIN shipments AS s ON c.name = s.customer) ON o.customer = c.name AND o.id = s.id"
    ),
    "right_join_after_a_comma": (
        "SELECT o.id, c.city, s.id AS sid FROM orders AS o, customers AS c RIGHT JOIN shipments AS s"
        " ON c.name = s.customer WHERE o.id < 3"
    ),
    "full_interval_join": (
        "SELECT o.id, s.id AS sid, s.`at` FROM orders AS o FULL JOIN shipments AS s ON o.customer = s.customer"
        " AND s.`at` BETWEEN o.`at` - INTERVAL '5' SECOND AND o.`at` + INTERVAL '10' SECOND"
    ),
    "self_join": "SELECT a.id, b.id FROM orders AS a JOIN orders AS b ON a.amount = b.amount AND a.id < b.id",
    "three_tables":
        "SELECT o.id, c.city, s.`at` FROM orders AS o JOIN customers AS c ON o.customer = c.name"
        " LEFT JOIN shipments AS s ON s.id = o.id AND s.customer = c.name",
    "join_of_aggregate_and_table":
        "SELECT c.city, t.n, t.s FROM (SELECT customer, COUNT(*) AS n, SUM(amount) AS s FROM orders GROUP BY customer) AS t"
        " JOIN customers AS c ON t.customer = c.name",
    "left_join_with_aggregate":
        "SELECT c.name, c.city, t.n FROM customers AS c LEFT JOIN"
        " (SELECT customer, COUNT(*) AS n FROM orders WHERE amount > 0 GROUP BY customer) AS t"
        " ON t.customer = c.name AND t.n > 1",
    "join_of_aggregates":
        "SELECT a.customer, a.n, b.m FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) AS a"
        " LEFT JOIN (SELECT customer, COUNT(*) AS m FROM shipments GROUP BY customer) AS b ON a.customer = b.customer",
    "join_by_updating_value":
        "SELECT a.customer, c.name FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) AS a"
        " JOIN customers AS c ON a.n = c.rank_",
    "aggregate_of_join":
        "SELECT c.city, COUNT(*), SUM(o.amount) FROM orders AS o LEFT JOIN customers AS c ON o.customer = c.name GROUP BY c.city",
    # -- windows -----------------------------------------------------------------------------------
    "tumble": f"SELECT window_start, window_end, customer, COUNT(*), SUM(amount) FROM {TUMBLE}"
        " GROUP BY window_start, window_end, customer",
    "tumble_without_key": f"SELECT window_end, COUNT(*), AVG(price), MAX(amount) FROM {TUMBLE} GROUP BY window_start, window_end",
    "tumble_offset":
        "SELECT window_start, COUNT(*) FROM"
        " TABLE(TUMBLE(TABLE orders, DESCRIPTOR(`at`), INTERVAL '10' SECOND, INTERVAL '3' SECOND))"
        " GROUP BY window_start, window_end",
    "tumble_rows": f"SELECT id, window_start, window_end, window_time FROM {TUMBLE} WHERE amount > 0",
    "hop":
        "SELECT window_start, window_end, customer, COUNT(*), MIN(price) FROM"
        " TABLE(HOP(TABLE orders, DESCRIPTOR(`at`), INTERVAL '5' SECOND, INTERVAL '15' SECOND))"
        " GROUP BY window_start, window_end, customer",
    "hop_offset":
        "SELECT window_start, SUM(amount) FROM"
        " TABLE(HOP(TABLE orders, DESCRIPTOR(`at`), INTERVAL '4' SECOND, INTERVAL '12' SECOND, INTERVAL '1' SECOND))"
        " GROUP BY window_start, window_end",
    "cumulate":
        "SELECT window_start, window_end, COUNT(*), COUNT(DISTINCT customer) FROM"
        " TABLE(CUMULATE(TABLE orders, DESCRIPTOR(`at`), INTERVAL '5' SECOND, INTERVAL '20' SECOND))"
        " GROUP BY window_start, window_end",
    "cumulate_offset":
        "SELECT window_start, window_end, customer, MAX(id) FROM"
        " TABLE(CUMULATE(TABLE orders, DESCRIPTOR(`at`), INTERVAL '5' SECOND, INTERVAL '20' SECOND, INTERVAL '2' SECOND))"
        " GROUP BY window_start, window_end, customer",
    "session":
        "SELECT customer, window_start, window_end, COUNT(*), SUM(amount) FROM"
        " TABLE(SESSION(TABLE orders PARTITION BY customer, DESCRIPTOR(`at`), INTERVAL '6' SECOND))"
        " GROUP BY customer, window_start, window_end",
    "session_without_key":
        "SELECT window_start, window_end, COUNT(*) FROM TABLE(SESSION(TABLE orders, DESCRIPTOR(`at`), INTERVAL '5' SECOND))"
        " GROUP BY window_start, window_end",
    "session_of_constants":
        "SELECT window_end, COUNT(1), COUNT(id) FILTER (WHERE TRUE), MAX('x') FROM"
        " TABLE(SESSION(TABLE orders, DESCRIPTOR(`at`), INTERVAL '5' SECOND)) GROUP BY window_start, window_end",
    "window_having": f"SELECT window_start, customer, COUNT(*) AS n FROM {TUMBLE}"
        " GROUP BY window_start, window_end, customer HAVING COUNT(*) > 1",
    "window_count_distinct": f"SELECT window_start, COUNT(DISTINCT customer), COUNT(*) FILTER (WHERE amount > 5) FROM {TUMBLE}"
        " GROUP BY window_start, window_end",
    "window_of_windows":
        f"SELECT window_start, MAX(n) FROM (SELECT window_start, window_end, customer, COUNT(*) AS n FROM {TUMBLE}"
        " GROUP BY window_start, window_end, customer) GROUP BY window_start, window_end",
    "hop_of_tumble":
        "CREATE VIEW small AS SELECT window_time AS rt, customer, COUNT(*) AS n FROM"
        " TABLE(TUMBLE(TABLE orders, DESCRIPTOR(`at`), INTERVAL '5' SECOND))"
        " GROUP BY window_start, window_end, window_time, customer;"
        " SELECT window_start, SUM(n) FROM TABLE(HOP(TABLE small, DESCRIPTOR(rt), INTERVAL '10' SECOND, INTERVAL '20' SECOND))"
        " GROUP BY window_start, window_end",
    "group_of_windows": f"SELECT customer, COUNT(*), SUM(n) FROM (SELECT window_start, customer, COUNT(*) AS n FROM {TUMBLE}"
        " GROUP BY window_start, window_end, customer) GROUP BY customer",
    "window_join":
        f"SELECT l.id, r.id, l.window_start FROM (SELECT * FROM {TUMBLE}) AS l JOIN"
        " (SELECT * FROM TABLE(TUMBLE(TABLE shipments, DESCRIPTOR(`at`), INTERVAL '10' SECOND))) AS r"
        " ON l.customer = r.customer AND l.window_start = r.window_start AND l.window_end = r.window_end",
    "window_left_join":
        f"SELECT l.id, r.id, r.`at` FROM (SELECT * FROM {TUMBLE}) AS l LEFT JOIN"
        " (SELECT * FROM TABLE(TUMBLE(TABLE shipments, DESCRIPTOR(`at`), INTERVAL '10' SECOND))) AS r"
        " ON l.customer = r.customer AND l.window_start = r.window_start AND l.window_end = r.window_end AND l.id <= r.id",
    "interval_join":
        "SELECT o.id, s.id, s.`at` FROM orders AS o JOIN shipments AS s ON o.customer = s.customer"
        " AND s.`at` BETWEEN o.`at` - INTERVAL '2' SECOND AND o.`at` + INTERVAL '10' SECOND",
    "interval_left_join":
        "SELECT o.id, s.id FROM orders AS o LEFT JOIN shipments AS s ON o.id = s.id"
        " AND s.`at` >= o.`at` AND s.`at` < o.`at` + INTERVAL '10' SECOND AND s.customer <> 'cat'",
    "window_top_n":
        "SELECT window_start, customer, n, place FROM (SELECT *, ROW_NUMBER() OVER"
        " (PARTITION BY window_start, window_end ORDER BY n DESC, customer) AS place FROM"
        f" (SELECT window_start, window_end, customer, COUNT(*) AS n FROM {TUMBLE}"
        " GROUP BY window_start, window_end, customer)) WHERE place <= 2",
    # -- ranks -------------------------------------------------------------------------------------
    "top_n":
        "SELECT customer, id, price, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY price DESC, id) AS n"
        " FROM orders) WHERE n <= 2",
    "top_n_without_rank":
        "SELECT customer, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY amount, id DESC) AS n"
        " FROM orders) WHERE n <= 2",
    "second_only":
        "SELECT customer, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY id) AS n FROM orders) WHERE n = 2",
    "top_n_of_all": "SELECT id, n FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY price DESC, id) AS n FROM orders) WHERE n <= 3",
    "top_n_of_aggregate":
        "SELECT customer, s, n FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY s DESC, customer) AS n FROM"
        " (SELECT customer, SUM(amount) AS s FROM orders GROUP BY customer)) WHERE n <= 3",
    "first_row":
        "SELECT customer, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY `at`) AS n FROM orders)"
        " WHERE n = 1",
    "last_row":
        "SELECT customer, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY `at` DESC) AS n FROM orders)"
        " WHERE n = 1",
    "first_row_of_all": "SELECT id FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY `at`) AS n FROM orders) WHERE n = 1",
    "last_row_of_all": "SELECT id FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY `at` DESC) AS n FROM orders) WHERE n = 1",
    "aggregate_of_last_rows":
        "SELECT amount, COUNT(*), MIN(id) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY `at` DESC) AS n"
        " FROM orders) WHERE n = 1 GROUP BY amount",
    "over_filters_and_ranges":
        "SELECT id, COUNT(*) FILTER (WHERE amount > 2) OVER (PARTITION BY customer ORDER BY id),"
        " AVG(price) FILTER (WHERE amount > 1) OVER (PARTITION BY customer ORDER BY id ROWS 2 PRECEDING),"
        " VAR_POP(amount) FILTER (WHERE id > 3) OVER (ORDER BY id ROWS 4 PRECEDING),"
        " LAG(amount) IGNORE NULLS OVER (ORDER BY id), LEAD(amount, 2) IGNORE NULLS OVER (ORDER BY id),"
        " FIRST_VALUE(amount) IGNORE NULLS OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING),"
        " NTH_VALUE(amount, 2) IGNORE NULLS OVER (ORDER BY id ROWS 3 PRECEDING),"
        " COUNT(*) OVER (ORDER BY `at` RANGE BETWEEN INTERVAL '5' SECOND PRECEDING AND INTERVAL '1' MINUTE FOLLOWING),"
        " SUM(amount) OVER (ORDER BY id DESC RANGE BETWEEN 3 PRECEDING AND 1 FOLLOWING) FROM orders",
}  # fmt: skip


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_has_the_batch_answer(name: str, differential: Differential) -> None:
    differential(QUERIES[name], TABLES)


LONG: Tables = {
    "longs": (
        "id INT, a DECIMAL(38, 10), b DECIMAL(10, 2), c DECIMAL(38, 0)",
        [
            (id, f"{sign}{whole}.{fraction}", f"{other}.0{id % 10}", f"{sign}{whole}")
            for id, (whole, fraction, sign, other) in enumerate(
                itertools.product(
                    ("0", "1", "4999999999", "9" * 20, "9" * 28),
                    ("0000000000", "0000000001", "5000000000", "9999999999"),
                    ("", "-"),
                    (1, -3, 77, 99999999),
                )
            )
        ],
    )
}


@pytest.mark.parametrize(
    "quotient",
    [
        "a / 3",
        "a / -7",
        "a / b",
        "b / a",
        "c / b",
        "c / 3",
        "CAST(a AS DECIMAL(38, 4)) / CAST(b AS DECIMAL(38, 2))",
    ],
)
def test_quotients_of_long_decimals_are_exact(quotient: str, differential: Differential) -> None:
    assert differential(f"SELECT id, {quotient} AS q FROM longs WHERE a <> 0", LONG)


@pytest.mark.parametrize("strategy", ["ONE_PHASE", "TWO_PHASE"])
@pytest.mark.parametrize("name", ["group", "count_distinct_by_key", "filtered_aggregates", "hop", "cumulate"])
def test_one_phase_and_two_answer_alike(name: str, strategy: str, differential: Differential) -> None:
    setting = f"SET 'table.optimizer.agg-phase-strategy' = '{strategy}';"
    differential(setting + QUERIES[name], TABLES, parallelism=3, batch_rows=2)


NIGHTS: Tables = {
    "calls": (
        "id INT, line INT, `at` TIMESTAMP_LTZ(3), WATERMARK FOR `at` AS `at` - INTERVAL '0.001' SECOND",
        # Clocks go forward in the first night, back in the second.
        [
            (id, id % 2, f"2024-{day} {time}")
            for id, (day, time) in enumerate(
                (day, time)
                for day in ("03-30", "03-31", "10-26", "10-27")
                for time in (
                    "00:00:00",
                    "00:30:00.001",
                    "01:00:00",
                    "01:30:00",
                    "12:00:00",
                    "22:30:00",
                    "23:59:59.999",
                )
            )
        ],
    )
}


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/St_Johns", "GMT+05:45"])
@pytest.mark.parametrize(
    "window",
    [
        "TUMBLE(TABLE calls, DESCRIPTOR(`at`), INTERVAL '1' DAY)",
        "TUMBLE(TABLE calls, DESCRIPTOR(`at`), INTERVAL '1' HOUR, INTERVAL '15' MINUTE)",
        "HOP(TABLE calls, DESCRIPTOR(`at`), INTERVAL '6' HOUR, INTERVAL '1' DAY)",
        "CUMULATE(TABLE calls, DESCRIPTOR(`at`), INTERVAL '8' HOUR, INTERVAL '1' DAY)",
    ],
)
def test_windows_of_instants_are_cut_by_the_clock_of_the_session(
    window: str, zone: str, differential: Differential
) -> None:
    aggregate = (
        f"SET 'table.local-time-zone' = '{zone}'; SELECT window_start, window_end, window_time, line, COUNT(*), MAX(id)"
        f" FROM TABLE({window}) GROUP BY window_start, window_end, window_time, line"
    )
    differential(aggregate, NIGHTS, batch_rows=2)
    ranked = (
        f"SET 'table.local-time-zone' = '{zone}'; SELECT * FROM (SELECT window_end, id, ROW_NUMBER() OVER (PARTITION BY"
        f" window_start, window_end ORDER BY id DESC) AS n FROM TABLE({window})) AS t WHERE n <= 2"
    )
    differential(ranked, NIGHTS, batch_rows=2)
    query = (
        f"SET 'table.local-time-zone' = '{zone}'; SELECT id, window_start, window_end, window_time, FLOOR(`at` TO DAY),"
        f" HOUR(`at`), CAST(`at` AS STRING) FROM TABLE({window})"
    )
    assert differential(query, NIGHTS)
