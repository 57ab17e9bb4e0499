// Spreading activation as one query, put together from these pieces: seeds, step (T times), rank, prefixes,
// bound (L_max - 1 times), extend (L_max times), chains. No procedure but the built-in vector search. Source: algorithms.md 1.5, 1.6.

// name: seeds
// Entities by key with score 1, or the nearest to a name's vector; then activation as share of the largest score.
UNWIND $names AS name
CALL (name) {
    UNWIND name.keys AS key
    MATCH (e:Entity {index: $index, folded_key: key})
    RETURN e AS node, 1.0 AS s
  UNION ALL
    WITH name WHERE size(name.keys) = 0
    CALL db.index.vector.queryNodes($vector_index, $k_fetch, name.vector) YIELD node, score
    WITH node, score ORDER BY score DESC, node.folded_key ASC LIMIT $k_per_name
    RETURN node, CASE $seed_score
        WHEN 'entity' THEN 2.0 * score - 1.0
        WHEN 'neo4j' THEN score
        ELSE 2.0 * vector.similarity.cosine(node.embedding, $vector) - 1.0 END AS s
}
WITH node, max(s) AS s WHERE s > 0.0
WITH collect({n: node, s: s}) AS seeds, max(s) AS largest
WITH seeds, [x IN seeds | {n: x.n, r: x.s / largest, g: null}] AS state;

// name: step
// One synchronous step; the gate of a node is computed when something first flows to it and carried on.
CALL (state) {
    UNWIND state AS st
    RETURN st.n AS v, st.r AS own, st.g AS gate, null AS flow
  UNION ALL
    UNWIND state AS st
    WITH st.n AS u, st.r AS r WHERE r > $threshold
    MATCH (u)-[e:RELATES_TO]-(v) WHERE v <> u
    WITH DISTINCT u, r, v, CASE WHEN $is_per_edge THEN e END AS edge
    RETURN v, null AS own, null AS gate, r AS flow
}
WITH seeds, v, coalesce(max(own), 0.0) AS own, max(gate) AS known, collect(flow) AS flows
WITH seeds, v, own, known, reduce(a = 0.0, f IN flows | CASE WHEN f > own + 1e-12 THEN a + f ELSE a END) AS inflow
WITH seeds, v, own, inflow, CASE
    WHEN inflow = 0.0 OR known IS NOT NULL THEN known
    WHEN $is_gated THEN coalesce(2.0 * vector.similarity.cosine(v.embedding, $vector) - 1.0, 0.0)
    WHEN NOT v.is_named OR $needs_embedding AND v.embedding IS NULL THEN 0.0
    ELSE 1.0 END AS gate
WITH seeds, v, own, gate, CASE WHEN gate > 0.0 THEN $decay * gate * inflow ELSE 0.0 END AS delta
WITH seeds, collect({n: v, r: CASE WHEN delta > $threshold THEN own + delta ELSE own END, g: gate}) AS state;

// name: rank
// Numbers the active nodes by falling activation and collects who is whose neighbour, so that chains are sought in lists.
CALL (state) {
    UNWIND state AS st
    WITH st.n AS n, st.r AS r WHERE r > 0.0
    WITH n, r ORDER BY r DESC, n.folded_key ASC
    RETURN collect(n) AS nodes, collect(r) AS values
}
CALL (nodes) {
    CALL (nodes) {
        UNWIND range(0, size(nodes) - 1) AS i
        RETURN nodes[i] AS v, i AS place, null AS near
      UNION ALL
        UNWIND range(0, size(nodes) - 1) AS i
        WITH i, nodes[i] AS u
        MATCH (u)-[:RELATES_TO]-(v) WHERE v <> u
        RETURN DISTINCT v, null AS place, i AS near
    }
    WITH v, max(place) AS place, collect(near) AS around WHERE place IS NOT NULL
    WITH place, around ORDER BY place
    RETURN collect(around) AS edges
};

// name: prefixes
// Chains begin at the seeds; a walk of no steps adds nothing.
WITH seeds, nodes, values, edges, [[v IN values | 0.0]] AS bounds, [x IN seeds | x.n] AS starts
WITH seeds, nodes, values, edges, bounds, false AS is_cut, 0 AS looked_at, -1.0 AS worst, [] AS chains,
     [i IN range(0, size(nodes) - 1) WHERE nodes[i] IN starts | {p: [i], w: values[i]}] AS prefixes;

// name: bound
// The largest sum that a walk of one step more can collect from each node: no chain collects more.
WITH seeds, nodes, values, edges, is_cut, looked_at, worst, chains, prefixes, bounds, bounds[-1] AS last
WITH seeds, nodes, values, edges, is_cut, looked_at, worst, chains, prefixes,
     bounds + [[around IN edges | reduce(most = 0.0, j IN around |
         CASE WHEN values[j] + last[j] > most THEN values[j] + last[j] ELSE most END)]] AS bounds;

// name: extend
// Adds a node to every prefix where that could still lead to one of the best chains, and keeps the best chains so far.
CALL (prefixes, edges, values, bounds, worst) {
    UNWIND prefixes AS prefix
    WITH prefix.p AS p, prefix.w AS w, edges[prefix.p[-1]] AS around, size(prefix.p) + 1 AS n
    UNWIND around AS j
    WITH p, w + values[j] AS w, n, j WHERE NOT j IN p
     AND any(m IN range(0, $max_length + 1 - n) WHERE w + bounds[m][j] >= (worst - 1e-8) * (n + m))
    WITH p, w, n, j LIMIT $max_paths
    RETURN collect({p: p + j, w: w, s: round(w / n, 9)}) AS grown
}
WITH seeds, nodes, values, edges, bounds, grown, is_cut OR looked_at + size(grown) >= $max_paths AS is_cut,
     looked_at + size(grown) AS looked_at, chains + [x IN grown WHERE x.s >= worst] AS chains
CALL (chains) {
    WITH chains, size(chains) AS count WHERE count >= $k_chains
    UNWIND chains AS chain
    RETURN percentileDisc(chain.s, (count - $k_chains + 0.5) / count) AS last
}
WITH seeds, nodes, values, edges, bounds, grown, is_cut, looked_at, chains, coalesce(last, -1.0) AS worst
WITH seeds, nodes, values, edges, bounds, is_cut, looked_at, worst, [x IN chains WHERE x.s >= worst] AS chains,
     [x IN grown WHERE NOT is_cut AND any(m IN range(1, $max_length + 1 - size(x.p)) WHERE
         x.w + bounds[m][x.p[-1]] >= (worst - 1e-8) * (size(x.p) + m))] AS prefixes;

// name: chains
// The best chains with the relations of their hops, all activations and the seeds: one record.
CALL (chains, nodes) {
    UNWIND chains AS chain
    WITH chain, [i IN chain.p | nodes[i].folded_key] AS keys
    ORDER BY chain.s DESC, size(keys) ASC, keys ASC
    RETURN collect({entities: chain.p, score: chain.w / size(chain.p)})[..$k_chains] AS found
}
CALL (found, nodes) {
    UNWIND found AS chain
    UNWIND range(0, size(chain.entities) - 2) AS i
    WITH DISTINCT CASE WHEN chain.entities[i] < chain.entities[i + 1] THEN chain.entities[i..i + 2]
                       ELSE reverse(chain.entities[i..i + 2]) END AS pair
    WITH pair, nodes[pair[0]] AS a, nodes[pair[1]] AS b
    MATCH (a)-[r:RELATES_TO]-(b)
    WITH pair, r, CASE WHEN startNode(r) = a THEN pair ELSE reverse(pair) END AS way
    RETURN collect(DISTINCT {source: way[0], target: way[1], relation: r.relation}) AS relations
}
RETURN [x IN seeds | [x.n.folded_key, x.s]] AS seeds, [n IN nodes | n.folded_key] AS keys, values, found, relations,
       is_cut;
