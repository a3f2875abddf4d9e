import { failure } from "../../../providers/outcome.ts";
import { EACH_SECRET } from "../defaults.ts";
import { type CallContext, type Done, doneBy, remoteType } from "../destination-type.ts";
import { refuseListedHost } from "../listed-host.ts";
import { checkObject } from "../object-rules.ts";
import { inspectVariable, putVariable, readVariable, removeVariable } from "../variables.ts";
import { callerOf, placeOf, UNVERSIONED } from "./client.ts";
import { type HttpsConnection, httpsConnection } from "./connection.ts";
import { description } from "./description.ts";

const maxValueBytes = 64 * 1024;

/**
 * Any API that takes a value by one request. One external object is one name; the requests are templates. A repeated
 * request has the same id, so that a receiver can recognise it. Of an answer, only the status, the retry hint, and the
 * members at the connection's pointers are used, of the version a digest: a body may echo the value.
 */
export const https = remoteType(description, httpsConnection, {
  targets: ({ url }) => [url],
  defaults: EACH_SECRET,
  naming: {
    allowed: /^[A-Za-z0-9_./:@+-]$/,
    maxLength: 512,
    replacement: "-",
    refuse: (name) => (/^\.{1,2}$/.test(name) ? "The name must not be dots alone." : null),
  },
  maxValueBytes,
  pace: { atOnce: 2, burst: 20, perMinute: 120 },
  reading: {
    list: (_cursor, connection, context) => placeOf(connection, context).names(),
    shows: ({ value_pointer: at }) => at !== undefined,
    read: (name, connection, context) => readVariable(placeOf(connection, context), name),
  },
  checkSettings: ({ url }, settings) => refuseListedHost("url", new URL(url).origin, settings),

  async put(object, connection, context) {
    const refused = checkObject(object, {
      name: /^(?!\.{1,2}$)[\w./:@+-]{1,512}$/,
      rule: "be 1 to 512 letters, digits or characters of _./:@+-, not dots alone",
      maxBytes: maxValueBytes,
    });
    if (refused !== null) return refused;
    if (object.updatePolicy !== "replace" && connection.inspect_url === undefined) {
      const message = `The update policy ${object.updatePolicy} needs inspect_url, to see whether an object exists.`;
      return failure("client", "policy_unsupported", message);
    }
    return putVariable(placeOf(connection, context, object.idempotencyToken), object);
  },

  async remove(object, connection, context) {
    if (connection.delete_method === "none") return { outcome: "ok" };
    // Without a marker, ownership is our record.
    const isMarked = connection.owner_pointer !== undefined;
    if (object.ownedOnly && !isMarked && object.reference === null) return { outcome: "ok" };
    const ownedOnly = object.ownedOnly && isMarked;
    return removeVariable(placeOf(connection, context, object.idempotencyToken), { ...object, ownedOnly });
  },

  async inspect(object, connection, context) {
    if (connection.inspect_url !== undefined) {
      const found = await inspectVariable(placeOf(connection, context), object);
      const hasValue = connection.value_pointer !== undefined && object.desired !== undefined;
      // The answer to our write had no version to compare with.
      const isOpen = object.reference === UNVERSIONED && !hasValue;
      return isOpen && found.outcome === "ok" && found.state === "changed" ? { ...found, state: "present" } : found;
    }
    const probed = await probe(connection, context);
    return probed.outcome === "ok" ? { outcome: "ok", state: "present", owned: null } : probed;
  },

  probe,
});

async function probe(connection: HttpsConnection, context: CallContext): Promise<Done> {
  if (connection.probe_url === undefined) {
    const refused = refuseListedHost("url", new URL(connection.url).origin, context.settings);
    return refused === null ? { outcome: "ok" } : failure("client", "host_not_allowed", `${refused}.`);
  }
  const call = callerOf(connection, context);
  return doneBy(await call({ doing: "The probe", method: "GET", url: connection.probe_url }, { name: "" }));
}
