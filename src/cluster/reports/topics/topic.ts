import type * as z from "zod";
import type { ObjectReport } from "../../../contracts/reports.ts";
import type { CsiVolumeRequest } from "../../../contracts/volume-requests.ts";
import { isPlainObject } from "../../../lib/json.ts";
import type { EventType } from "../event-types.ts";

export type Fields = Readonly<Record<string, unknown>>;

/** The rules of a topic's objects (docs/internals/wire/nomad.md). */
export interface Topic {
  /** The schema of the known fields. */
  readonly object: z.ZodType;
  /** The field that is the object's key. */
  readonly key: "ID" | "Name" | "Path";
  /** The payload's member that holds the object; default: the topic's name. */
  readonly member?: string;
  readonly namespaced: boolean;
  /** Payload members beside the object. */
  readonly beside?: Readonly<Record<string, z.ZodType>>;
  /** Payload members beside the object that its state implies; reported ones take precedence. */
  implied?(object: Fields): Fields;
  /** Whether `Deleted` is in every payload, also when it is false. */
  readonly alwaysDeleted?: true;
  /** Additional filter keys of the object's events. */
  filterKeys(object: Fields): readonly string[] | null;
  /** The object as stored and sent. */
  kept?(object: Fields): Fields;
  /** The node it is placed on. */
  nodeOf?(object: Fields): string | null;
  /** Whether it is terminal. */
  terminal?(object: Fields): boolean;
  /** The version of its job, or its own for a job. */
  jobVersion?(object: Fields): unknown;
  /** Its own copy of its job. */
  job?(object: Fields): Fields | null;
  /** The deployment and the evaluation that placed it. */
  placedBy?(object: Fields): ObjectReport["placedBy"];
  /** Its counter in the job's summary. */
  tally?(object: Fields): string | undefined;
  /** The sticky volumes it requests, if it embeds its job. */
  sticky?(object: Fields): readonly string[] | undefined;
  /** The CSI volumes it requests, if it embeds its job. */
  csiVolumes?(object: Fields): readonly CsiVolumeRequest[] | undefined;
  /** The event type that implies removal. */
  readonly goneBy?: string;
  /** The event type of an object missing from a full list. */
  readonly removal: EventType;
}

/** A field's text; empty without one. */
export const textOf = (object: Fields, field: string): string => {
  const value = object[field];
  return typeof value === "string" ? value : "";
};

/** A field's object; null without one. */
export const objectOf = (object: Fields, field: string): Fields | null => {
  const value = object[field];
  return isPlainObject(value) ? value : null;
};

/** Whether a field is present and not null. */
export const isSet = (object: Fields, field: string): boolean => (object[field] ?? null) !== null;
