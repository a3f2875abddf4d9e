import { join, resolve } from "node:path";
import * as z from "zod";
import { writePrivate } from "./state.ts";

/**
 * The wrangler configuration of one deployment: wrangler.toml with the ids and names of its resources. wrangler.toml
 * stays as it is, so that an upgrade of the checkout has no conflict.
 */

export interface Deployed {
  readonly name: string;
  readonly suffix: string;
  readonly databaseId: string;
  /** The custom domain; null for an address below workers.dev. */
  readonly domain: string | null;
  readonly address: string;
  readonly jurisdiction: string | null;
  readonly location: string | null;
  readonly withAudit: boolean;
  /** Where the Secrets Store has the master key; null: it is a secret of the Worker. */
  readonly masterKey: { readonly store: string; readonly name: string } | null;
}

const Named = <const Key extends string>(key: Key) => z.array(z.looseObject({ [key]: z.string() }));

/** The parts of wrangler.toml that differ between deployments. */
const Base = z.looseObject({
  main: z.string(),
  alias: z.record(z.string(), z.string()),
  assets: z.looseObject({ directory: z.string() }),
  vars: z.record(z.string(), z.unknown()).default({}),
  d1_databases: z.tuple([z.looseObject({ migrations_dir: z.string() })]),
  r2_buckets: Named("bucket_name"),
  ratelimits: Named("namespace_id"),
  queues: z.strictObject({
    producers: Named("queue"),
    consumers: z.array(z.looseObject({ queue: z.string(), dead_letter_queue: z.string().optional() })),
  }),
});

/** Writes `dir`/wrangler.json, and returns its path. */
export async function writeDeploymentConfig(dir: string, root: string, of: Deployed): Promise<string> {
  // It takes a second to load, and a deletion does not need it.
  const { experimental_readRawConfig } = await import("wrangler");
  const { rawConfig } = experimental_readRawConfig({ config: join(root, "wrangler.toml") });
  const base = Base.parse(rawConfig);
  const path = join(dir, "wrangler.json");
  writePrivate(path, `${JSON.stringify(configOf(base, root, of), null, 2)}\n`);
  return path;
}

function configOf(base: z.infer<typeof Base>, root: string, of: Deployed): object {
  const { name, suffix, databaseId, domain, address, jurisdiction, location, withAudit, masterKey } = of;
  const own = (what: string) => `${name}-${what.replace(/^sallyport-/, "")}-${suffix}`;
  const { queues, alias, assets, d1_databases, r2_buckets, ratelimits, vars } = base;
  const [database] = d1_databases;
  const audit = withAudit ? [{ binding: "AUDIT_BUCKET", bucket_name: "audit" }] : [];
  const { secrets, ...unstored } = base;
  return {
    ...unstored,
    ...(masterKey === null
      ? { secrets }
      : {
          secrets_store_secrets: [{ binding: "MASTER_KEY", store_id: masterKey.store, secret_name: masterKey.name }],
        }),
    name,
    main: resolve(root, base.main),
    alias: Object.fromEntries(Object.entries(alias).map(([from, to]) => [from, resolve(root, to)])),
    assets: { ...assets, directory: resolve(root, assets.directory) },
    workers_dev: domain === null,
    preview_urls: false,
    ...(domain !== null && { routes: [{ pattern: domain, custom_domain: true }] }),
    vars: {
      ...vars,
      PUBLIC_URL: address,
      ...(jurisdiction && { JURISDICTION: jurisdiction }),
      ...(location && !jurisdiction && { LOCATION_HINT: location }),
    },
    d1_databases: [
      {
        ...database,
        database_name: own("listings"),
        database_id: databaseId,
        migrations_dir: resolve(root, database.migrations_dir),
      },
    ],
    r2_buckets: [...r2_buckets, ...audit].map((bucket) => ({
      ...bucket,
      bucket_name: own(String(bucket["bucket_name"])),
      ...(jurisdiction && { jurisdiction }),
    })),
    queues: {
      producers: queues.producers.map((each) => ({ ...each, queue: own(String(each["queue"])) })),
      consumers: queues.consumers.map(({ queue, dead_letter_queue, ...rest }) => ({
        ...rest,
        queue: own(queue),
        ...(dead_letter_queue !== undefined && { dead_letter_queue: own(dead_letter_queue) }),
      })),
    },
    // The numbers tell the counters of an account apart.
    ratelimits: ratelimits.map((each, at) => ({ ...each, namespace_id: String(counterBase(suffix) + at) })),
  };
}

/** A positive number of this deployment, with room for ten counters. */
const counterBase = (suffix: string): number => (Number.parseInt(suffix.slice(0, 7), 16) + 1) * 10;
