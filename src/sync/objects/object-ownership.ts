import type { RemoteObjectRow } from "../schema.ts";

/*
 * Whether an object of this service exists under a recorded name: column `ours` of table `copies`.
 *
 *                  leased, or adopted from another row          push succeeded
 *   0 UNTRIED ---------------------------------------> 1 MAYBE ---------------> 2 OURS
 *      ^                                                  |                        |
 *      +---- object absent, not ours, or another's name --+------------------------+
 */

/** Values of `ours`: no push was sent; a push was sent and its outcome is unknown; a push succeeded. */
export const UNTRIED = 0;
export const MAYBE = 1;
export const OURS = 2;

/** Whether an object of this service exists or may exist under this name. */
export const mayBeOurs = (row: RemoteObjectRow): boolean => row.ours !== UNTRIED;
