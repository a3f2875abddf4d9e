/**
 * The description of a destination type, as plain data without imports at run time: each layer may read it. From it
 * come the upstream names of paths and answers, the masked and fixed fields, the deployment's settings, the console's
 * form, the tables of docs/guides/sync.md, and rows of tests (docs/internals/add-a-destination.md).
 */

/** One field of the create body, in the provider's words. */
export interface FieldDescription {
  readonly label: string;
  /** One line below the field. */
  readonly help?: string;
  /** A create body without it is refused. */
  readonly required?: true;
  /** Reads show `*****`. */
  readonly secret?: true;
  /** Cannot change after the destination was created. */
  readonly fixed?: true;
  /** Behind "More settings" of the form. */
  readonly advanced?: true;
  /** An older name of another field: accepted, never in a form. */
  readonly hidden?: true;
  readonly placeholder?: string;
  /** Lines of the form's text area. */
  readonly rows?: number;
  /** Labels of the choices. */
  readonly choices?: Readonly<Record<string, string>>;
}

export interface DestinationDescription {
  /** The neutral name: in paths, `type` and rows. */
  readonly type: string;
  /** The name in the upstream dialect, where it differs. */
  readonly upstream?: string;
  /** The provider's product, as people call it. */
  readonly label: string;
  /** Its objects, one line. */
  readonly about: string;
  /** By wire name, in the order of the form. */
  readonly fields: Readonly<Record<string, FieldDescription>>;
  /** A valid create body with made-up values: all required fields. Absent for a type without fields. */
  readonly example?: Readonly<Record<string, unknown>>;
  /** The default name of the key `password` of the secret `app/database`, in a mount with the accessor `kv_1a2b3c4d`. */
  readonly sampleName: string;
  /** Settings of the deployment that the type reads beyond those of other types: addresses of other servers. */
  readonly settings?: readonly string[];
  /** How a destination logs in, for the guide's table. */
  readonly login: string;
  /** The evidence that a read of an object shows: drift is found by it. */
  readonly reads: "value" | "version" | "time" | "names";
  /** When the provider's users see a new value. */
  readonly effect: "immediate" | "restarts" | "version" | "next_deploy";
  /** Sizes, names, counts and rates of the provider, for the guide's table. */
  readonly limits: string;
  /** Rights at the provider: for every push, and for `verify`, `drift` and policies other than `replace`. */
  readonly permissions: readonly [push: string, inspection: string];
}

/** The fields of types that log in with identity tokens. */
export const identityTokenDescriptions = {
  identity_token_audience: {
    label: "Identity token audience",
    help: "Logs in by identity tokens instead of a stored secret. Credentials, tab Federation, has what the provider needs.",
    secret: true,
    advanced: true,
  },
  identity_token_ttl: { label: "Identity token TTL", help: "Such as 1h.", advanced: true },
  identity_token_key: {
    label: "Identity token key",
    help: "The issuer has one key, default.",
    secret: true,
    advanced: true,
  },
} as const satisfies DestinationDescription["fields"];

/** Whether identity tokens replace a stored secret (docs/guides/federation.md). */
export const hasFederation = ({ fields }: Pick<DestinationDescription, "fields">): boolean =>
  "identity_token_audience" in fields;

const namesOf = ({ fields }: DestinationDescription, mark: "secret" | "fixed" | "required"): string[] =>
  Object.entries(fields)
    .filter(([, field]) => field[mark])
    .map(([name]) => name);

/** The parts of a type that its description states. */
export const fromDescription = (description: DestinationDescription) => ({
  description,
  type: description.type,
  sensitive: namesOf(description, "secret"),
  immutable: namesOf(description, "fixed"),
});

/** Fields without which a create body is refused. */
export const requiredFields = (description: DestinationDescription): string[] => namesOf(description, "required");
