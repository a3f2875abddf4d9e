import type { SyncAdoptionApi } from "../contracts/sync-adoption.ts";
import type { SyncDestinationApi } from "../contracts/sync-destination.ts";
import type { SyncRulesApi } from "../contracts/sync-rules.ts";
import { ok, refuse } from "../lib/result.ts";
import { sealed } from "../platform/crypto/refuse-if-sealed.ts";
import { NOTHING } from "../platform/durable/object-context.ts";
import type { MethodTable } from "../platform/durable/rpc-methods.ts";
import { destinationState } from "./configuration/configuration.ts";
import type { DestinationParts } from "./destination-parts.ts";
import { freshUntil } from "./fresh-rights.ts";
import { completed } from "./rules/rule-naming.ts";
import type { Breaker } from "./scheduler/breaker.ts";
import type { DestinationRow } from "./schema.ts";

/** Associations or stored objects of a page. */
const PAGE = 1_000;

/** Some methods of a destination. */
type Methods = Partial<MethodTable<SyncDestinationApi, DestinationParts>>;

/** RPC methods about the destination itself, as requests and other objects see it. */
export const configurationMethods = {
  read: sealed(({ record, purge, breaker }) => destinationState(record, purge, breaker)),
  repaired: ({ configuration }) => configuration.repaired(),
  quotaScarce: ({ quota }) => quota.giveUpUnused(),
  needsApp: ({ app }, name) => app.needs(name),
  setup: sealed(({ leasing }) => {
    const setup = leasing.setup();
    return setup ? ok(setup) : refuse("missing");
  }),
  // A destination with a common target asks for names.
  contest: ({ neighbours }, ...given) => neighbours.contest(...given),
} satisfies Methods;

/** RPC methods about associations and the mounts of their secrets. */
export const associationMethods = {
  changed: ({ changes }, ...given) => changes.enqueue(...given),
  mountMoved: ({ relocation }, mountUuid) => relocation.begin(mountUuid),
  // By the mount's path, for deleted mounts.
  accessorOf: ({ associations }, ...given) => associations.ofPath(...given)?.mount_accessor ?? null,
  ofSecret: ({ record, associations, breaker }, ...given) => {
    const destination = record.row();
    const row = destination && associations.ofPath(...given);
    return row ? associations.views(row, waitsOf(destination, breaker)) : [];
  },
  associations: ({ record, associations, breaker }, ids, after = "", limit = PAGE) => {
    const destination = record.row();
    if (!destination) return refuse("missing");
    const most = Math.min(limit, PAGE);
    const rows = ids
      ? ids.map((id) => associations.find(id)).filter((row) => row !== null)
      : associations.page(after, most);
    const waits = waitsOf(destination, breaker);
    return ok({
      store_name: destination.name,
      store_type: destination.type,
      associated_secrets: rows.flatMap((row) => associations.views(row, waits)),
      next: ids || rows.length < most ? null : (rows.at(-1)?.id ?? null),
    });
  },
  setTrace: ({ object, associations }, ...given) => object.commit(() => associations.setTrace(...given), NOTHING),
  plan: ({ planning }, ...given) => planning.plan(...given),
} satisfies Methods;

/** The times that entries of a destination's associations show. */
const waitsOf = (row: DestinationRow, breaker: Breaker) => ({
  openUntil: breaker.view()?.openUntil ?? 0,
  freshUntil: freshUntil(row),
});

/** RPC methods that look at objects, and change nothing. */
export const inspectMethods = {
  storedObjects: sealed(({ record, storedObjects }, after) =>
    record.find()?.type.kind === "stored" ? ok(storedObjects.page(after, PAGE)) : refuse("missing"),
  ),
  previewSet: ({ previews }, ...given) => previews.set(...given),
  previewConfigure: sealed(({ previews }, ...given) => previews.configure(...given)),
  copyRecords: ({ previews }, ...given) => previews.records(...given),
  sampleName: ({ previews }) => previews.sampleName(),
} satisfies Methods;

/** RPC methods about associations by rule. While a deployment is gradual, callers may have an older version. */
export const ruleMethods: MethodTable<SyncRulesApi, DestinationParts> = {
  putRule: ({ rules }, name, mount, definition) => rules.put(name, mount, completed(definition)),
  previewRule: ({ rules }, name, mount, definition, after) => rules.preview(name, mount, completed(definition), after),
  readRule: ({ rules }, name) => rules.read(name),
  ruleNames: ({ record, rules }) => (record.row() ? ok(rules.names()) : refuse("missing")),
  ruleMatches: ({ rules }, ...given) => rules.matches(...given),
  confirmRule: ({ rules }, ...given) => rules.confirm(...given),
  deleteRule: ({ rules }, ...given) => rules.delete(...given),
  setSelected: ({ selection }, mount, definition) => selection.set(mount, completed(definition)),
  matching: ({ ruleWork }, ...given) => ruleWork.matching(...given),
};

/** RPC methods about the adoption of existing objects. */
export const adoptionMethods: MethodTable<SyncAdoptionApi, DestinationParts> = {
  previewAdoptions: sealed(({ adoptions }, given) => adoptions.preview(given)),
  adopt: ({ adoptions }, given) => adoptions.adopt(given),
};
