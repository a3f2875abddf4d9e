/**
 * The two selected namespaces. Both are part of the address (`?ns=` and `?cluster=`), so that links can be shared and a
 * reload keeps them; docs/guides/namespaces.md says what each is for.
 */

import { place } from "../app/router.ts";
import { computed } from "../lib/signal.ts";

/** Path in the tree of the secrets API; empty for the root namespace. */
export const secretsNamespace = computed(() => (place.value.query.get("ns") ?? "").replace(/\/+$/, ""));
/** Name in the flat list of the cluster API; `*` for all. */
export const clusterNamespace = computed(() => place.value.query.get("cluster") ?? "default");
