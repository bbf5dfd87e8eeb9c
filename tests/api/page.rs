//! The page and the documentation: they must work without internet.

use crate::support::Service;

#[tokio::test]
async fn the_page_and_its_files_are_served_with_a_strict_policy() {
    let service = Service::new();
    let page = service.get("/").await;
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'self'") && !policy.contains("unsafe"), "{policy}");
    assert!(!page.text.contains("style=") && !page.text.contains("<style") && !page.text.contains("onclick"), "nothing inline");
    for document in [&page, &service.get("/docs").await] {
        for file in links(&document.text) {
            let answer = service.get(&format!("/{file}")).await.status;
            assert_eq!(answer, 200, "{file}");
        }
    }
}

#[tokio::test]
async fn nothing_is_asked_of_another_host() {
    let service = Service::new();
    for path in ["/", "/docs", "/assets/page.css", "/assets/page.js", "/assets/detail.js", "/assets/format.js", "/assets/icon.svg"] {
        let text = service.get(path).await.text.replace("http://www.w3.org/2000/svg", "");
        assert!(!text.contains("http://") && !text.contains("https://") && !text.contains("//cdn"), "{path}");
    }
    let docs = service.get("/docs").await;
    assert!(docs.text.contains("load-fonts=\"false\""));
    assert!(docs.header("content-security-policy").starts_with("default-src 'self'"), "the browser would refuse it, too");
}

#[tokio::test]
async fn no_text_of_a_target_can_become_markup() {
    let service = Service::new();
    for path in ["/assets/page.js", "/assets/detail.js", "/assets/format.js"] {
        let script = service.get(path).await.text;
        for word in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"] {
            assert!(!script.contains(word), "{word} in {path}");
        }
    }
}

/// What a document loads, as paths.
fn links(html: &str) -> Vec<String> {
    let after = |mark: &str| html.split(mark).skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect::<Vec<_>>();
    let mut links = [after("src=\""), after("href=\""), after("spec-url=\"")].concat();
    links.retain(|link| !link.starts_with('#') && link != "./" && !link.starts_with("assets/rapidoc"));
    links
}

#[tokio::test]
async fn the_viewer_is_served_packed() {
    let service = Service::new();
    let request = http::Request::get("/assets/rapidoc-9.3.8.js").body(axum::body::Body::empty()).expect("a request");
    let response = service.send(request).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-encoding"], "gzip");
}
