import Long from "long";
import protobuf from "protobufjs/light.js";
import { type Draft, MESSAGES, type Message, type MessageName } from "./messages.ts";

/** Without Long, int64 values would be decoded to numbers. A bundler does not detect this dependency. */
protobuf.util.Long = Long;
protobuf.configure();

type Field = readonly [id: number, kind: string];
const isName = (kind: string): kind is MessageName => Object.hasOwn(MESSAGES, kind);
const fieldsOf = (name: MessageName) => Object.entries(MESSAGES[name]) as [string, Field][];

const root = new protobuf.Root();
for (const name of Object.keys(MESSAGES) as MessageName[]) {
  const type = new protobuf.Type(name);
  for (const [field, [id, kind]] of fieldsOf(name)) {
    const one = kind.replace("[]", "");
    if (kind === "map") type.add(new protobuf.MapField(field, id, "string", "string"));
    else type.add(new protobuf.Field(field, id, one, one === kind ? undefined : "repeated"));
  }
  root.add(type);
}
root.resolveAll();

const ZEROS: readonly unknown[] = ["", "0", 0, false, null, undefined];

/** The fields to encode: those that differ from their type's default, which absent fields have. */
function present(name: MessageName, draft: Record<string, unknown>): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  for (const [field, [, kind]] of fieldsOf(name)) {
    const value = draft[field];
    if (ZEROS.includes(value)) continue;
    const one = kind.replace("[]", "");
    const inner = (item: unknown) => (isName(one) ? present(one, item as Record<string, unknown>) : item);
    fields[field] = Array.isArray(value) ? value.map(inner) : inner(value);
  }
  return fields;
}

export function encode<N extends MessageName>(name: N, draft: Draft<N>): Buffer {
  const type = root.lookupType(name);
  return Buffer.from(type.encode(type.fromObject(present(name, draft))).finish());
}

/** @throws when the bytes are not a valid message */
export function decode<N extends MessageName>(name: N, bytes: Uint8Array): Message<N> {
  const type = root.lookupType(name);
  return type.toObject(type.decode(bytes), {
    longs: String,
    defaults: true,
    arrays: true,
    objects: true,
  }) as Message<N>;
}
