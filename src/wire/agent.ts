import * as z from "zod";
import { time, timeOrNull } from "./shapes.ts";

/** Agents of nodes and their join tokens, as the cluster API answers them. */

/** Never with its secret. */
export const JoinToken = z.object({
  AccessorID: z.string(),
  NodePool: z.string(),
  Name: z.string().describe("The one name that a node may join under; empty is any."),
  CreateTime: time,
  ExpirationTime: time,
  NodeID: z.string().describe("The node that has joined by it; empty while it is unused."),
});

export const Agent = z.object({
  NodeID: z.string(),
  Name: z.string(),
  NodePool: z.string(),
  Version: z.string(),
  Connected: z.boolean(),
  ConnectedSince: timeOrNull,
  /** The time of the last message of a lost connection; null while connected and before the first. */
  LastSeen: timeOrNull,
  CreateTime: time,
});
