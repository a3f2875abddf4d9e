/**
 * The description of an engine type: plain data without imports at run time, which each layer may read. From it come the
 * upstream names of types, fields and values, the names of plugins in identity tokens, and the forms of the API document.
 */

/** One field of a body, in the provider's words. */
export interface FieldDescription {
  readonly label: string;
  /** One sentence. */
  readonly help?: string;
  /** The name in the upstream dialect, where it differs. */
  readonly upstream?: string;
  /** Values with another name in the upstream dialect: neutral name, upstream name. */
  readonly values?: readonly (readonly [neutral: string, upstream: string])[];
  /** Never returned by a read. */
  readonly secret?: true;
  /** A write without it restores its default, so that a form sends the stored value. */
  readonly restored?: true;
  /** An example in the console's form. */
  readonly placeholder?: string;
  /** Lines of its field in the console's form. */
  readonly rows?: number;
  /** The environment variable by which the provider's tools read it. */
  readonly variable?: string;
  /** Behind "More settings" in the console's form. */
  readonly advanced?: true;
  /** A new one needs it. */
  readonly required?: true;
  /** It counts only while another field of the body has one of these values. */
  readonly only?: { readonly field: string; readonly is: readonly string[] };
}

/** The field of roles that `sharePercent` reads. */
export const shareUntil: FieldDescription = {
  advanced: true,
  label: "Share until",
  help: "Percent of the TTL, at most 90, until which a caller gets the same lease again; 0 is never.",
};

/** A member of the answer with issued credentials. */
export interface AnswerField {
  readonly label: string;
  readonly secret?: true;
  /** The environment variable that the provider's tools read. */
  readonly variable?: string;
  /** Its value is the life of the credentials in seconds. */
  readonly life?: true;
}

/** Paths that issue credentials, by the value of a field of the role. */
export interface IssuePaths {
  readonly field: string;
  readonly paths: Readonly<Record<string, string>>;
}

/** A further kind of roles, with paths of its own. */
export interface RoleKind {
  /** Path of one role without its name, such as `/static-roles`. It begins the stored names. */
  readonly path: string;
  /** Paths that list the roles; absent: `path`. */
  readonly lists?: readonly string[];
  /** Paths that replace the credentials that belong to a role, with `:name` inside. */
  readonly rotate?: readonly string[];
  /** Paths that issue credentials of a role. The role's name is `:name`, or follows the path. */
  readonly issue: readonly string[];
  /** Paths that answer the credentials that are kept for a role, without a lease. The role's name follows. */
  readonly reads?: readonly string[];
  /** Paths that log in with those credentials and answer an access token, with `:name` inside. */
  readonly logins?: readonly string[];
  /** Further paths that write a role, with `:name` inside and a body of their own, of the same fields. */
  readonly writes?: readonly string[];
  /** A write answers the role. */
  readonly answersWrites?: true;
  /** Which of `issue` a role has. */
  readonly issueBy?: IssuePaths;
  /** The resources that a role owns at the provider, for texts; they are removed with it. Absent: none. */
  readonly owns?: string;
  /** The body of `POST <path>/:name`, by neutral name. */
  readonly fields: Readonly<Record<string, FieldDescription>>;
}

export interface EngineDescription {
  /** The neutral name of the type in `sys/mounts`. */
  readonly type: string;
  /** The name in the upstream dialect, also of the plugin in identity tokens. */
  readonly upstream: string;
  /** The provider's product. */
  readonly label: string;
  /** The credentials that it issues, one line. */
  readonly about: string;
  /** Paths below a mount, as upstream has them. */
  readonly paths: {
    readonly config: string;
    /** Null: the type has no root credentials that it can replace. */
    readonly rotate: string | null;
    /** Shows the calls of a configuration, and sends none; absent: the type has no such path. */
    readonly dryRun?: string;
    readonly roles: string;
    /** Paths that list roles; absent: `roles`. */
    readonly lists?: readonly string[];
    /** Paths that replace the credentials that belong to a role, with `:name` inside. */
    readonly rotateRole?: readonly string[];
    /** Paths that issue credentials of a role. The role's name is `:name`, or follows the path. */
    readonly issue: readonly string[];
    readonly issueBy?: IssuePaths;
  };
  /** The configuration has no deletion. */
  readonly keepsConfig?: true;
  /** A write of a role needs `update` even if the role is new. */
  readonly updatesRoles?: true;
  /** The deletion of a role that does not exist succeeds. */
  readonly deletesAnyRole?: true;
  /** Names of roles are stored in lower case. */
  readonly isCaseless?: true;
  /** See `RoleKind`, of roles at `paths.roles`. */
  readonly owns?: string;
  /** The body of `POST config`, by neutral name. */
  readonly config: Readonly<Record<string, FieldDescription>>;
  /** The bodies of the further documents of the configuration, by path and neutral name. */
  readonly documents?: Readonly<Record<string, Readonly<Record<string, FieldDescription>>>>;
  /** The body of `POST roles/:name`, by neutral name. */
  readonly roles: Readonly<Record<string, FieldDescription>>;
  /** Kinds of roles beside those at `paths.roles`. */
  readonly kinds?: readonly RoleKind[];
  /** The members of the answers with credentials. */
  readonly answer: Readonly<Record<string, AnswerField>>;
}

/** Every kind of roles of a type: those at `paths.roles` first. */
export const kindsOf = ({ paths, owns, roles, kinds = [] }: EngineDescription): readonly RoleKind[] => [
  {
    path: paths.roles,
    lists: paths.lists ?? [paths.roles],
    rotate: paths.rotateRole ?? [],
    issue: paths.issue,
    ...(paths.issueBy && { issueBy: paths.issueBy }),
    ...(owns !== undefined && { owns }),
    fields: roles,
  },
  ...kinds,
];

/** The beginning of stored names of a kind: nothing for roles at `paths.roles`. */
export const prefixOf = ({ paths }: EngineDescription, { path }: RoleKind): string =>
  path === paths.roles ? "" : `${path.slice(1)}/`;

/** The name of a stored role without the beginning of its kind. */
export const plainName = (stored: string): string => stored.slice(stored.lastIndexOf("/") + 1);

/** The path of a stored role below its mount. */
export const rolePath = ({ paths }: EngineDescription, stored: string): string =>
  stored.includes("/") ? stored : `${paths.roles.slice(1)}/${stored}`;

/** The resources of a stored role, for the operator. */
export function ownedBy(description: EngineDescription, stored: string): string {
  const prefix = stored.includes("/") ? stored.slice(0, stored.indexOf("/") + 1) : "";
  const kind = kindsOf(description).find((each) => prefixOf(description, each) === prefix);
  return `${kind?.owns ?? "resources"} of a role`;
}

/** The fields of a configuration whose secret is rotated. @param texts their help */
export const rotationFields = (texts: { readonly scheduled: string; readonly period: string }) =>
  ({
    rotation_schedule: {
      placeholder: "0 3 * * 6",
      label: "Rotation schedule",
      help: `${texts.scheduled}, as a cron expression of five fields in UTC.`,
    },
    rotation_window: {
      advanced: true,
      label: "Rotation window",
      help: "How long after its time a scheduled rotation may still begin.",
    },
    rotation_period: {
      placeholder: "30d",
      label: "Rotation period",
      help: `${texts.period} after this time, instead of a schedule.`,
    },
  }) as const;
