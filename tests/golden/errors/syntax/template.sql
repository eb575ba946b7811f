SELECT {{ x }}
