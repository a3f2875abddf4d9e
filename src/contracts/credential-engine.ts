/** The body of `POST config`, read and checked: only the settings that change. Durations in seconds. */
export interface ConfigFields {
  readonly subscription_id?: string | undefined;
  readonly tenant_id?: string | undefined;
  readonly environment?: string | undefined;
  readonly client_id?: string | undefined;
  readonly client_secret?: string | undefined;
  readonly root_password_ttl?: number | undefined;
  readonly identity_token_audience?: string | undefined;
  readonly identity_token_ttl?: number | undefined;
  readonly rotation_schedule?: string | undefined;
  readonly rotation_window?: number | undefined;
  readonly rotation_period?: number | undefined;
  readonly rotation_policy?: string | undefined;
  readonly disable_automated_rotation?: boolean | undefined;
}

/** The body of `POST roles/:name`, read and checked, with neutral names. Durations in seconds. */
export interface RoleFields {
  readonly cloud_roles?:
    | readonly { readonly role_name: string; readonly role_id: string; readonly scope: string }[]
    | undefined;
  readonly cloud_groups?: readonly { readonly group_name: string; readonly object_id: string }[] | undefined;
  readonly application_object_id?: string | undefined;
  readonly persist_app?: boolean | undefined;
  readonly ttl?: number | undefined;
  readonly max_ttl?: number | undefined;
  readonly explicit_max_ttl?: number | undefined;
  readonly permanently_delete?: boolean | undefined;
  readonly sign_in_audience?: string | undefined;
  readonly tags?: readonly string[] | undefined;
  /** The durations as they were written. */
  readonly written?: Readonly<Record<string, string | number | undefined>> | undefined;
}
