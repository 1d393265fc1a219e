interface SameAsProps {
  readonly command: string;
  readonly path: string;
}

/** Shows what a page shows as a command and as curl. */
export function SameAs({ command, path }: SameAsProps) {
  return (
    <details className="section">
      <summary className="muted">The same as a command, and as curl</summary>
      <pre className="code">
        {command}
        {'\n'}
        {`curl -H "Authorization: Bearer $NIGHTSHIFT_API_KEY" ${window.location.origin}${path}`}
      </pre>
    </details>
  );
}
