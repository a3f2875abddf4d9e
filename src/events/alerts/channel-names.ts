/** Topic of the events of notifications. */
export const NOTIFICATION_TOPIC = "Notification";

/** Filter key of the events for a channel. */
export const channelKey = (channel: string): string => `channel/${channel}`;

/** Names of other event subscriptions have no slash. */
const PREFIX = "notification/";

/** Name of the object that delivers to a channel. */
export const channelSubscription = (channel: string): string => PREFIX + channel;

/** The channel that an event subscription belongs to; null for other subscriptions. */
export const channelOf = (subscription: string): string | null =>
  subscription.startsWith(PREFIX) ? subscription.slice(PREFIX.length) : null;
