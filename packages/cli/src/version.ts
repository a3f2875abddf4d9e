/** The release of this program; a test compares it with the service's. */
export const VERSION = "0.2.0";
