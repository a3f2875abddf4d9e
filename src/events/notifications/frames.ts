import type { Notification, NotificationFormat } from "../../contracts/notification.ts";

/** Frames of event notifications: CloudEvents as JSON, or upstream's protobuf message `logical.EventReceived`. */

/** CloudEvents: the source of all events of the service. */
const SOURCE = "vault://sallyport";

/** A notification in each format, encoded once for all subscribers. */
export class Frames {
  #json: string | undefined;
  #protobuf: Uint8Array | undefined;

  constructor(readonly notification: Notification) {}

  in(format: NotificationFormat): string | Uint8Array {
    if (format === "protobuf") {
      this.#protobuf ??= protobufFrame(this.notification);
      return this.#protobuf;
    }
    this.#json ??= jsonFrame(this.notification);
    return format === "json" ? this.#json : serverSentFrame(this.notification.index, this.#json);
  }
}

/** Clients copy frames to their output, so that each ends its line. Empty members are left out. */
export function jsonFrame({ id, time, type, namespace, metadata, plugin }: Notification): string {
  const data = {
    event: { id, metadata },
    ...(namespace !== "" && { namespace }),
    event_type: type,
    ...(plugin && { plugin_info: plugin }),
  };
  const event = { id, source: SOURCE, specversion: "1.0", type: "*", data };
  return `${JSON.stringify({ ...event, datacontentype: "application/cloudevents", time })}\n`;
}

/** The frame holds its line feed, which ends the line of data. */
const serverSentFrame = (index: number, json: string): string => `id: ${index}\ndata: ${json}\n`;

/** Without data no event fires, and the client stores the id, from which it resumes. */
export const serverSentHeartbeat = (index: number): string => `id: ${index}\n\n`;

/** https://github.com/hashicorp/vault/blob/main/sdk/logical/event.proto */
export function protobufFrame({ id, type, namespace, metadata, plugin }: Notification): Uint8Array {
  const fields = Object.entries(metadata).map(([key, value]) =>
    // google.protobuf.Struct: a map of `Value`, whose member 3 is a text.
    message(1, text(1, key), message(2, text(3, value))),
  );
  const event = message(1, text(1, id), message(2, ...fields));
  const info = plugin && [
    text(1, plugin.mount_class),
    text(2, plugin.mount_accessor),
    text(3, plugin.mount_path),
    text(4, plugin.plugin),
    text(6, plugin.version ?? ""),
  ];
  return Buffer.concat([event, text(2, namespace), text(3, type), ...(info ? [message(4, ...info)] : [])]);
}

const LENGTH_DELIMITED = 2;

/** A member of type `string`; one that is empty has its default, and is left out. */
const text = (member: number, value: string): Uint8Array =>
  value === "" ? new Uint8Array() : message(member, Buffer.from(value));

function message(member: number, ...parts: readonly Uint8Array[]): Uint8Array {
  const body = Buffer.concat(parts);
  return Buffer.concat([varint((member << 3) | LENGTH_DELIMITED), varint(body.length), body]);
}

function varint(value: number): Uint8Array {
  const bytes: number[] = [];
  for (let rest = value; ; rest >>>= 7) {
    if (rest < 0x80) return Uint8Array.from([...bytes, rest]);
    bytes.push((rest & 0x7f) | 0x80);
  }
}
