/** Whether tests of this file move the clock; then alarms set at one time cannot be held against another. */
export const clock = { moves: false };
