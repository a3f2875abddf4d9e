import type { MountConfig } from "./mount.ts";

/** Settings of a mount, as a request names them. */
type MountSettings = { readonly [Name in keyof MountConfig]?: MountConfig[Name] | undefined };

/** The body of `POST sys/mounts/:path`, read and checked. Durations in seconds. */
export interface MountBody {
  readonly type: string;
  readonly description: string;
  readonly config?: MountSettings | null | undefined;
  readonly options?: Readonly<Record<string, string>> | null | undefined;
  readonly local: boolean;
  readonly seal_wrap: boolean;
}

/** The body of `POST sys/mounts/:path/tune`, read and checked: only the settings that change. */
export interface TuneBody extends MountSettings {
  readonly description?: string | undefined;
  readonly options?: Readonly<Record<string, string>> | null | undefined;
}

/** The body of `auth/token/create`, read and checked. Durations in seconds. */
export interface TokenBody {
  readonly id?: string | undefined;
  readonly policies?: readonly string[] | null | undefined;
  readonly meta?: Readonly<Record<string, string>> | null | undefined;
  readonly no_parent?: boolean | undefined;
  readonly no_default_policy?: boolean | undefined;
  readonly renewable: boolean;
  readonly ttl?: number | undefined;
  readonly lease?: number | undefined;
  readonly explicit_max_ttl?: number | undefined;
  readonly period?: number | undefined;
  readonly display_name: string;
  readonly num_uses: number;
  readonly type: "" | "service" | "default-service" | "default";
}

/** The body of `/v1/acl/token`, read and checked. */
export interface ClusterTokenBody {
  readonly AccessorID?: string | undefined;
  readonly Name: string;
  readonly Type: string;
  readonly Policies?: readonly string[] | null | undefined;
  readonly Global?: boolean | null | undefined;
  /** Seconds, rounded up. */
  readonly ExpirationTTL?: number | null | undefined;
  readonly ExpirationTime?: string | null | undefined;
}
