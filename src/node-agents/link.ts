import type { NodeReport, ServiceFrame } from "@sallyport/agent-protocol";

/** The state of one WebSocket. It is attached to the socket and survives hibernation. */
export interface Link {
  /** The connection's id, which is also the socket's tag. */
  readonly id: string;
  /** The ordinal of the connection; later ones are higher. */
  readonly number: number;
  /** When it was opened, ms since 1970. */
  readonly opened: number;
  /** The pool and name the agent is bound to by its join token. */
  readonly pool: string;
  readonly boundName: string | null;
  /** opened: awaiting hello. greeted: hello received. over: closed by this side, further frames are ignored. */
  readonly state: "opened" | "greeted" | "over";
  /** The epoch of its hello; 0 before. */
  readonly epoch: number;
  readonly proto: number;
}

export const linkOf = (socket: WebSocket): Link => socket.deserializeAttachment() as Link;

/** Updates the attached state. @returns the new state */
export function attach(socket: WebSocket, change: Partial<Link>): Link {
  const link = { ...linkOf(socket), ...change };
  socket.serializeAttachment(link);
  return link;
}

/** A closing socket drops the frame; every frame that matters is sent again over the next connection. */
export function send(socket: WebSocket, frame: ServiceFrame): void {
  if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(frame));
}

/** Upper bound of a close reason in bytes (RFC 6455, 5.5). */
const REASON_BYTES = 123;

/** Closes a socket and ignores its further frames: a half-open socket stays open for long and may revive. */
export function close(socket: WebSocket, code: number, reason: string): void {
  attach(socket, { state: "over" });
  try {
    socket.close(code, withinBytes(reason, REASON_BYTES));
  } catch {
    // Already closed.
  }
}

function withinBytes(text: string, most: number): string {
  const bytes = Buffer.from(text);
  // A truncated character becomes a replacement character of three bytes.
  return bytes.length <= most ? text : bytes.subarray(0, most - 3).toString();
}

/** The fault of a report that exceeds its join's pool or name, or null. */
export function beyondJoin({ pool, boundName }: Link, node: Pick<NodeReport, "NodePool" | "Name">): string | null {
  if (node.NodePool !== pool) return `node.NodePool: this node has joined the pool ${pool}`;
  if (boundName !== null && node.Name !== boundName) return `node.Name: this node has joined as ${boundName}`;
  return null;
}
