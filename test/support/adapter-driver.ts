import { sender } from "../../src/providers/outcome.ts";
import type {
  CallContext,
  ExternalObject,
  ObsoleteObject,
  ProviderSettings,
  RemoteDestinationType,
} from "../../src/sync/destinations/destination-type.ts";
import type { Loopback } from "../doubles/loopback.ts";

/**
 * Calls of one adapter with a create body, for tests beyond the contract of every adapter.
 * @param more settings beyond the addresses that the type's description names
 */
export function driverOf<Connection>(
  type: RemoteDestinationType<Connection>,
  double: () => Loopback,
  body: () => Record<string, unknown>,
  more: () => ProviderSettings = () => ({}),
) {
  const context = (): CallContext => {
    const settings: ProviderSettings = { SYNC_ALLOWED_HOSTS: "127.0.0.1" };
    for (const name of type.description.settings ?? []) Object.assign(settings, { [name]: double().url });
    return { settings: { ...settings, ...more() }, send: sender({ deadlineMs: 5000 }) };
  };
  const connect = (changed: Record<string, unknown>): Connection => {
    const parsed = type.connection.parse({ ...body(), ...changed });
    return type.resolve?.(parsed) ?? parsed;
  };
  const name = type.description.sampleName;
  return {
    name,
    /** A first push of the sample object. */
    put: (object: Partial<ExternalObject> = {}, changed: Record<string, unknown> = {}) =>
      type.put(
        {
          name,
          reference: null,
          value: "hunter2-hunter2",
          tags: {},
          idempotencyToken: "intent-1",
          knownToExist: false,
          previousTagKeys: [],
          contentType: "text/plain",
          updatePolicy: "replace",
          ...object,
        },
        connect(changed),
        context(),
      ),
    remove: (changed: Record<string, unknown> = {}, object: Partial<ObsoleteObject> = {}) =>
      type.remove({ name, reference: null, ownedOnly: false, ...object }, connect(changed), context()),
    inspect: (reference: string | null, changed: Record<string, unknown> = {}, value?: string) =>
      type.inspect(
        { name, reference, ...(value !== undefined && { desired: { value } }) },
        connect(changed),
        context(),
      ),
    probe: (changed: Record<string, unknown> = {}) => type.probe(connect(changed), context()),
    /** Fields of a create body that the schema refuses. */
    refused: (changed: Record<string, unknown>) =>
      type.connection.safeParse({ ...body(), ...changed }).error?.issues.map(({ path }) => path.join(".")) ?? [],
  };
}
