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
    readonly roles: string;
    /** Paths that issue credentials of a role. The role's name is `:name`, or follows the path. */
    readonly issue: readonly string[];
  };
  /** The configuration has no deletion. */
  readonly keepsConfig?: true;
  /** A write of a role needs `update` even if the role is new. */
  readonly updatesRoles?: true;
  /** The deletion of a role that does not exist succeeds. */
  readonly deletesAnyRole?: true;
  /** Names of roles are stored in lower case. */
  readonly isCaseless?: true;
  /** The body of `POST config`, by neutral name. */
  readonly config: Readonly<Record<string, FieldDescription>>;
  /** The bodies of the further documents of the configuration, by path and neutral name. */
  readonly documents?: Readonly<Record<string, Readonly<Record<string, FieldDescription>>>>;
  /** The body of `POST roles/:name`, by neutral name. */
  readonly roles: Readonly<Record<string, FieldDescription>>;
}
