/**
 * Names of the instances of a replica. A holder of leases is an instance: another one under the name of the replica has
 * another memory.
 */

/** A new instance of a replica. */
export const newHolder = (replica: string): string => `${replica} ${crypto.randomUUID()}`;

/** The replica of a holder. */
export const replicaOf = (holder: string): string => holder.slice(0, holder.lastIndexOf(" "));
