SELECT tt.a FROM t;
