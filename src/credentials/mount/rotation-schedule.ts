import { parseCron } from "../../lib/cron.ts";
import { type Refusal, refuse } from "../../lib/result.ts";

/** When the root secret of an engine is rotated by itself: fields of every engine's configuration, as upstream names them. */
export interface RotationSchedule {
  /** A cron expression of five fields in UTC; empty without one. */
  readonly rotation_schedule: string;
  /** Seconds after a scheduled time in which a rotation may still begin; 0: no limit. */
  readonly rotation_window: number;
  /** Seconds between two rotations; 0 without a period. */
  readonly rotation_period: number;
  readonly rotation_policy: string;
  readonly disable_automated_rotation: boolean;
}

export const NO_SCHEDULE: RotationSchedule = {
  rotation_schedule: "",
  rotation_window: 0,
  rotation_period: 0,
  rotation_policy: "",
  disable_automated_rotation: false,
};

/** Fields whose change moves the next rotation. */
const MOVING = ["rotation_schedule", "rotation_window", "rotation_period", "disable_automated_rotation"] as const;

const MIN_WINDOW = 3_600;
const MIN_PERIOD = 10;

/** The refusal of a schedule; null when it is valid. */
export function refusedSchedule({
  rotation_schedule: schedule,
  rotation_window: window,
  rotation_period: period,
}: RotationSchedule): Refusal | null {
  if (schedule !== "" && period > 0) {
    const given = "mutually exclusive fields rotation_schedule and rotation_period were both specified";
    return refuse("invalid", `${given}; only one of them can be provided`);
  }
  if (schedule !== "" && parseCron(schedule) === null) {
    return refuse(
      "invalid",
      "failed to parse provided rotation_schedule: must be a cron expression of 5 fields, in UTC",
    );
  }
  if (window > 0 && period > 0) return refuse("invalid", "rotation_window does not apply to period");
  if (window > 0 && schedule === "") return refuse("invalid", "cannot use rotation_window without rotation_schedule");
  if (window > 0 && window < MIN_WINDOW) return refuse("invalid", "rotation_window must be 3600 seconds or more");
  return period > 0 && period < MIN_PERIOD ? refuse("invalid", "rotation_period must be 10 seconds or more") : null;
}

/** Whether two schedules have different rotations. */
export const isMoved = (before: RotationSchedule, after: RotationSchedule): boolean =>
  MOVING.some((field) => before[field] !== after[field]);

/**
 * Time of the next rotation of the root secret, ms since 1970; null without a schedule. @param since the last rotation
 */
export function nextRotation(config: RotationSchedule, since: number): number | null {
  if (config.disable_automated_rotation) return null;
  if (config.rotation_period > 0) return since + config.rotation_period * 1000;
  return config.rotation_schedule === "" ? null : (parseCron(config.rotation_schedule)?.after(since) ?? null);
}
