import { helpOn } from "./help.ts";
import { handlerOf } from "./server/handle.ts";
import { authRoutes, clusterRoutes, mountTable, secretsRoutes } from "./table.ts";

const tables = { secrets: secretsRoutes, mounts: mountTable, auth: authRoutes, cluster: clusterRoutes };

/** Handles one request to the service. Never throws. */
export const handle = handlerOf({ tables, help: helpOn });
