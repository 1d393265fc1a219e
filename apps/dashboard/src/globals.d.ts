/** Version of the page, written in by the build. */
declare const NIGHTSHIFT_VERSION: string;
