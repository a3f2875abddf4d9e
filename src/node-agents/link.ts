import type { NodeReport, ServiceFrame } from "@sallyport/agent-protocol";

/** What is known of one WebSocket. It is attached to it, so it outlives the object's memory. */
export interface Link {
  /** The connection's id, and the socket's tag. */
  readonly id: string;
  /** Which connection of this node it is: a later one has a higher number. */
  readonly number: number;
  /** When it was opened, ms since 1970. */
  readonly opened: number;
  /** What the agent's join has bound it to. */
  readonly pool: string;
  readonly boundName: string | null;
  /** opened: no hello yet. greeted: its hello is being looked at, or was taken. over: closed by this side; deaf since then. */
  readonly state: "opened" | "greeted" | "over";
  /** From its hello; 0 before. */
  readonly epoch: number;
  readonly proto: number;
}

export const linkOf = (socket: WebSocket): Link => socket.deserializeAttachment() as Link;

/** Attaches what has become known. @returns the link as it is now */
export function attach(socket: WebSocket, change: Partial<Link>): Link {
  const link = { ...linkOf(socket), ...change };
  socket.serializeAttachment(link);
  return link;
}

/** A socket that is closing takes nothing any more: whatever matters is sent again over the next. */
export function send(socket: WebSocket, frame: ServiceFrame): void {
  if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(frame));
}

/** What a close frame holds, in bytes, beside its code (RFC 6455, 5.5). */
const REASON_BYTES = 123;

/** Closes a socket and stops listening to it: one whose other end is gone stays open for long, and may come to life again. */
export function close(socket: WebSocket, code: number, reason: string): void {
  attach(socket, { state: "over" });
  try {
    socket.close(code, withinBytes(reason, REASON_BYTES));
  } catch {
    // It was closed already.
  }
}

function withinBytes(text: string, most: number): string {
  const bytes = Buffer.from(text);
  // A character that is cut becomes a replacement character, which takes three bytes.
  return bytes.length <= most ? text : bytes.subarray(0, most - 3).toString();
}

/** What of a report its agent's join does not cover, or null. */
export function beyondJoin({ pool, boundName }: Link, node: Pick<NodeReport, "NodePool" | "Name">): string | null {
  if (node.NodePool !== pool) return `node.NodePool: this node has joined the pool ${pool}`;
  if (boundName !== null && node.Name !== boundName) return `node.Name: this node has joined as ${boundName}`;
  return null;
}
