/** The neutral name of an event type that an upstream stream passes on (contract: events-and-volumes 1.9). */
export const neutralEventType = (type: unknown): unknown => (type === "NodeStreamEvent" ? "NodeEvent" : type);
