/* The HTML report of a run.  It is self-contained: pictures are embedded at full resolution, since the improvement is
 * not visible in small ones. */
#include "cli/html.h"
#include "cli/upscale_report.h"
#include <string.h>

/* Sides of a picture in the page.  Of larger ones the middle is shown. */
enum { SIDE_MOST = 6000 };

/* The middle `part` of the picture, as u8 RGB. */
static gale_status cut_middle(const gale_picture *p, const double part[2], gale_picture **out)
{
    gale_picture *full = NULL, *made = NULL;
    int64_t width = (int64_t)((double)p->width * part[0]), height = (int64_t)((double)p->height * part[1]);
    if (width < 1) width = 1;
    if (height < 1) height = 1;
    GALE_TRY(gale_picture_convert(p, GALE_U8, 3, &full));
    if (width == full->width && height == full->height) return *out = full, GALE_OK;
    gale_status status = gale_picture_create(width, height, 3, GALE_U8, &made);
    int64_t x = (full->width - width) / 2, y = (full->height - height) / 2;
    for (int64_t i = 0; i < height && status == GALE_OK; i++)
        memcpy((uint8_t *)made->data + i * width * 3, (uint8_t *)full->data + ((y + i) * full->width + x) * 3,
            (size_t)width * 3);
    gale_picture_destroy(&full);
    if (status == GALE_OK) *out = made;
    return status;
}

static double shrink_factor(int64_t a, int64_t b)
{
    int64_t larger = a > b ? a : b;
    return larger > SIDE_MOST ? (double)SIDE_MOST / (double)larger : 1;
}

gale_status gale__upscale_keep(gale__upscale_sum *s, const gale_picture *before, const gale_picture *after)
{
    double part[2] = {shrink_factor(before->width, after->width), shrink_factor(before->height, after->height)};
    s->cut = part[0] < 1 || part[1] < 1;
    GALE_TRY(cut_middle(before, part, &s->before));
    return cut_middle(after, part, &s->after);
}

/* JPEG, PNG or BMP: the best that this build writes of what browsers show; BMP is always there. */
static gale_status add_picture(gale__str *out, const char *id, const gale_picture *p)
{
    static const char *const shown[] = {"bmp", "png", "jpeg"};
    gale_picture_write_options o = {.quality = 95};
    const gale_picture_format *f;
    void *data = NULL;
    size_t size = 0;
    for (size_t k = 0; k < sizeof shown / sizeof *shown; k++)
        for (int i = 0; (f = gale_picture_format_get(i)); i++)
            if (f->writes && !strcmp(f->name, shown[k])) o.format = f->name;
    GALE_TRY(gale_picture_to_memory(p, &o, &data, &size));
    gale__str_addf(out, "<img id=%s alt=%s src='data:image/%s;base64,", id, id, o.format);
    gale__html_add_data(out, data, size);
    gale__str_add(out, "'>");
    gale_free(data);
    return GALE_OK;
}

/* Both pictures in one frame, the smaller one drawn as large as the other: a line between them that a slider moves, the
 * wheel and buttons for the scale, and a loupe that shows both at 1:1 under the pointer.  Everything is counted in
 * pixels of the result, and 1:1 in those of the screen. */
static const char viewer[] =
    "</div><div class=view><canvas id=c></canvas><b id=left>before</b><b id=right>after</b></div><p class=tools>"
    "<label>before <input id=side type=range min=0 max=1000 value=500 aria-label='before or after'> after</label>"
    "<span><button data-z=0>fit</button> <button data-z=1>1:1</button> <button data-z=2>2:1</button> "
    "<button data-z=4>4:1</button></span>"
    "<label><input id=loupe type=checkbox checked> loupe at 1:1</label><output id=scale></output></p><script>"
    "{const $=i=>document.getElementById(i),A=$('after'),B=$('before'),c=$('c'),g=c.getContext('2d'),v=c.parentNode,"
    "s=$('side'),k=$('loupe');let z=0,fits=true,x=0,y=0,at=null,drag=null,W,H,r;"
    "const put=(p,l,t,w,h,ox,oy,m)=>{g.save();g.beginPath();g.rect(l,t,w,h);g.clip();"
    "g.imageSmoothingEnabled=m<1||p===B;g.imageSmoothingQuality='high';g.drawImage(p,ox,oy,W*m,H*m);g.restore()};"
    "const draw=()=>{r=devicePixelRatio||1;c.width=v.clientWidth*r;c.height=v.clientHeight*r;"
    "if(fits){z=Math.min(c.width/W,c.height/H);x=W/2;y=H/2}"
    "const ox=c.width/2-x*z,oy=c.height/2-y*z,d=(1-s.value/1000)*c.width;"
    "put(B,0,0,d,c.height,ox,oy,z);put(A,d,0,c.width-d,c.height,ox,oy,z);"
    "g.fillStyle='#fff';g.fillRect(d-r,0,2*r,c.height);"
    "$('left').hidden=d<1;$('right').hidden=d>c.width-1;"
    "$('scale').textContent=Math.round(z*100)+' %';"
    "if(!at||!k.checked||drag)return;const px=(at[0]-ox)/z,py=(at[1]-oy)/z,n=180*r;if(px<0||py<0||px>W||py>H)return;"
    "const l=Math.max(0,Math.min(c.width-2*n,at[0]-n)),t=at[1]>n+30*r?at[1]-n-20*r:at[1]+20*r;"
    "[B,A].forEach((p,i)=>{g.fillStyle='#808890';g.fillRect(l+i*n,t,n,n);"
    "put(p,l+i*n,t,n,n,Math.round(l+i*n+n/2-px),Math.round(t+n/2-py),1);"
    "g.strokeStyle='#fff';g.lineWidth=2*r;g.strokeRect(l+i*n,t,n,n)})};"
    "const zoom=(m,e)=>{const ex=e?e.offsetX*r-c.width/2:0,ey=e?e.offsetY*r-c.height/2:0;x+=ex/z-ex/m;y+=ey/z-ey/m;"
    "z=m;fits=false;draw()};"
    "v.onwheel=e=>{e.preventDefault();zoom(Math.min(16,Math.max(.02,z*2**(-e.deltaY/400))),e)};"
    "v.onpointerdown=e=>{drag=[e.offsetX,e.offsetY];v.setPointerCapture(e.pointerId)};"
    "v.onpointerup=()=>{drag=null;draw()};v.onpointerleave=()=>{at=null;draw()};"
    "v.onpointermove=e=>{if(drag){x-=(e.offsetX-drag[0])*r/z;y-=(e.offsetY-drag[1])*r/z;fits=false;"
    "drag=[e.offsetX,e.offsetY]}at=[e.offsetX*r,e.offsetY*r];draw()};"
    "document.querySelectorAll('[data-z]').forEach(b=>b.onclick=()=>{if(+b.dataset.z)zoom(+b.dataset.z);"
    "else{fits=true;draw()}});"
    "s.oninput=k.onchange=onresize=draw;onload=()=>{W=A.naturalWidth;H=A.naturalHeight;draw()}}</script>";

static gale_status add_pictures(const gale__upscale_sum *s, gale__str *out)
{
    if (s->cut) gale__str_add(out, "<p>The middle of the first picture, which is larger than what is shown here:</p>");
    gale__str_add(out, "<div class=both>");
    GALE_TRY(add_picture(out, "after", s->after));
    GALE_TRY(add_picture(out, "before", s->before));
    gale__str_add(out, viewer);
    return GALE_OK;
}

static void add_row(const gale__upscale_row *r, gale__str *out)
{
    char cleaned[128];
    gale__upscale_cleaned(r, cleaned, sizeof cleaned);
    gale__str_add(out, "<tr><td>");
    gale__html_add(out, r->input);
    gale__str_add(out, "<td>");
    gale__html_add(out, r->error ? r->error : r->output ? r->output : "-");
    if (r->error) {
        gale__str_add(out, "<td class=n>failed<td><td><td><td>");
        return;
    }
    gale__str_addf(out,
        "<td class=n>%lld x %lld<td class=n>%lld x %lld%s<td class=n>%lld of %lld x %lld%s<td class=n>%.2f s",
        (long long)r->size[0], (long long)r->size[1], (long long)r->size[2], (long long)r->size[3], cleaned,
        (long long)r->report.tiles, (long long)r->report.tile_width, (long long)r->report.tile_height,
        r->report.by_memory ? " (limited by memory)" : "", r->seconds);
    gale__str_add(out, "<td>");
    gale__html_add(out, r->where.device);
}

static void add_head(gale__str *out)
{
    gale__str_add(out,
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'><title>gale "
        "upscale</title><style>"
        "body{font:14px/1.45 system-ui,sans-serif;margin:24px;color:#1b2530;background:#fff}h1{font-size:20px}"
        "table{border-collapse:collapse;margin-top:20px}"
        "td,th{padding:2px 10px;text-align:left;border-bottom:1px solid #e3e8ee}"
        "td.n{text-align:right;font-variant-numeric:tabular-nums}"
        ".view{position:relative;height:70vh;background:#808890;cursor:grab;touch-action:none}"
        ".view canvas{width:100%;height:100%;display:block}"
        ".view b{position:absolute;top:8px;padding:1px 8px;background:#000a;color:#fff;pointer-events:none}"
        "#left{left:8px}#right{right:8px}.both img{display:none}"
        ".tools{display:flex;gap:12px;align-items:center;flex-wrap:wrap}#side{width:280px;vertical-align:middle}"
        "@media(prefers-color-scheme:dark){body{background:#141a21;color:#dde4ec}td,th{border-color:#2b3541}}"
        "</style><noscript><style>.view,.tools{display:none}.both img{display:block;max-width:100%}</style></noscript>"
        "<h1>gale upscale: ");
}

gale_status gale__upscale_html(const gale__upscale_sum *s, gale__str *out)
{
    gale__str line = {0};
    add_head(out);
    gale__html_add(out, s->info.name);
    gale__str_add(out, "</h1><p>");
    gale__upscale_line(s, &line);
    gale__html_add(out, gale__str_text(&line));
    gale__str_add(out, "</p>");
    out->failed |= line.failed;
    gale__str_finish(&line);
    if (s->before && s->after) GALE_TRY(add_pictures(s, out));
    gale__str_add(out, "<table><tr><th>picture<th>became<th>pixels<th>pixels then<th>tiles<th>time<th>device");
    for (size_t i = 0; i < s->count; i++) add_row(&s->rows[i], out);
    gale__str_add(out, "</table></html>\n");
    return gale__str_check(out);
}
