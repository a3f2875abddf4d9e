import type * as z from "zod";
import type { VolumeAsk } from "../../../contracts/volume-asks.ts";
import { isPlainObject } from "../../../lib/json.ts";
import type { EventType } from "../event-types.ts";

export type Fields = Readonly<Record<string, unknown>>;

/** What is particular about the objects of a topic (docs/internals/wire/nomad.md). */
export interface Topic {
  /** What the fields that are known hold. */
  readonly object: z.ZodType;
  /** Which of them is the object's key. */
  readonly key: "ID" | "Name";
  readonly namespaced: boolean;
  /** What the payload may say beside the object. */
  readonly beside?: Readonly<Record<string, z.ZodType>>;
  /** By what else subscribers find an event of the object. */
  filterKeys(object: Fields): readonly string[] | null;
  /** The object as it is kept and sent. */
  kept?(object: Fields): Fields;
  /** The node that it is on. */
  nodeOf?(object: Fields): string | null;
  /** It will never run again. */
  terminal?(object: Fields): boolean;
  /** What it counts as in the summary of its job. */
  tally?(object: Fields): string | undefined;
  /** The sticky volumes that it asks for, when it says so itself. */
  sticky?(object: Fields): readonly string[] | undefined;
  /** The CSI volumes that it asks for, as `sticky`. */
  csiVolumes?(object: Fields): readonly VolumeAsk[] | undefined;
  /** The type that says by itself that the object is gone. */
  readonly goneBy?: string;
  /** The type of the event that tells that an object is missing from a full list. */
  readonly removal: EventType;
}

/** A field's text; empty when there is none. */
export const textOf = (object: Fields, field: string): string => {
  const value = object[field];
  return typeof value === "string" ? value : "";
};

/** A field's object; null when there is none. */
export const objectOf = (object: Fields, field: string): Fields | null => {
  const value = object[field];
  return isPlainObject(value) ? value : null;
};

/** Whether a field holds anything but null. */
export const isSet = (object: Fields, field: string): boolean => (object[field] ?? null) !== null;
