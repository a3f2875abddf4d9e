/** Services in simulated regions. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import type { EdgeSide } from "./edge.ts";
import { Server } from "./server.ts";

/** @param replicas of each region; 0 = Workers ask the owners */
export async function startEdge(dir: string, replicas: number): Promise<EdgeSide> {
  const token = randomBytes(16).toString("hex");
  const vars = {
    MASTER_KEY: randomBytes(32).toString("base64"),
    DEV_ROOT_TOKEN: token,
    READ_REPLICAS: String(replicas),
  };
  const plan = { name: "edge", config: "wrangler.toml", main: "bench/ours/edge.mts", vars };
  return { server: await Server.start(plan, join(dir, `edge-${replicas}`)), token };
}
