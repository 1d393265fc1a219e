import 'vitest';

declare module 'vitest' {
  interface ProvidedContext {
    /** A superuser's URL of an empty PostgreSQL; see the repository's test/global-setup.ts. */
    postgresUrl: string;
  }
}
